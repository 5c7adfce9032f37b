/* SPDX-License-Identifier: MIT */
/*
 * A core file as a machine: headers, notes, where its memory lies.
 *
 * Covers: src/machine/core/elf.c src/machine/core/extent.c src/machine/core/kdump.c
 * src/machine/core/kdump_bitmap.c src/machine/core/kdump_page.c src/machine/core/notes.c
 * src/machine/core/writer_note.c.
 */
#include "../unit/memory_file.h"
#include <string.h>
#include <vmscope/core.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_memory(struct vms_machine *machine)
{
	uint8_t buf[64];
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	for (size_t i = 0; i < n; i++) {
		uint64_t pa = ranges[i].pa, end = pa + ranges[i].size, begin, stop;
		g_assert_cmpuint(ranges[i].size, >, 0);
		g_assert_cmpuint(end, >, pa);
		g_assert_true(i == 0 || ranges[i - 1].pa + ranges[i - 1].size <= pa);
		if (i > 100)
			continue;
		if (vms_machine_next_data(machine, pa, end, &begin, &stop)) {
			g_assert_cmpuint(begin, >=, pa);
			g_assert_cmpuint(begin, <, stop);
			g_assert_cmpuint(stop, <=, end);
		}
		vms_machine_read_phys(machine, pa, buf, sizeof(buf));
		vms_machine_read_phys(machine, end - sizeof(buf) / 2, buf, sizeof(buf));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autoptr(memory_file) memory = memory_file_new(data, size);
	g_autoptr(vms_machine) machine = vms_machine_open_core(memory->path, NULL);
	if (!machine)
		return 0;
	g_assert_cmpuint(vms_machine_vcpus(machine), >, 0);
	for (unsigned i = 0; i < vms_machine_vcpus(machine); i++) {
		struct vms_regs regs;
		g_assert_true(vms_machine_all_regs(machine, i, &regs, NULL));
	}
	const char *vmcoreinfo = vms_machine_vmcoreinfo(machine);
	g_assert_true(!vmcoreinfo || strlen(vmcoreinfo) <= 65536);
	read_memory(machine);
	return 0;
}
