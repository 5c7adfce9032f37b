/* SPDX-License-Identifier: MIT */
/*
 * A page of any content, and what is asked of it at detection.
 *
 * Covers: src/guest/linux/vmcoreinfo.c src/guest/linux/linux_x86_64.c
 * src/guest/linux/linux_aarch64.c.
 */
#include "guest/linux/vmcoreinfo.h"
#include "../unit/fake_machine.h"
#include "guest/linux/kernel_image.h"

#define GAP 0x5000 /* between two ranges of memory */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory that has the bytes twice: in a range, which holds more than pages, and beyond a gap. */
static void scan(const uint8_t *data, size_t size)
{
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, 1);
	const size_t ram = size / VMS_VMCOREINFO_SIZE * VMS_VMCOREINFO_SIZE + VMS_VMCOREINFO_SIZE;
	struct vms_vmcoreinfo_search search = { 0 };
	uint64_t last = 0;
	char *text;
	memcpy(fake_machine_add_ram(machine, 0x800, ram + 0x800) + 0x800, data, size);
	fake_machine_add_range(machine, ram + 0x1000, GAP, VMS_RANGE_ROM, "rom");
	memcpy(fake_machine_add_ram(machine, ram + GAP, ram), data, size);
	fake_machine_add_range(machine, 4 * (ram + GAP), ram, VMS_RANGE_RAM, "missing");
	while ((text = vms_vmcoreinfo_scan(machine, &search))) {
		g_assert_cmphex(search.pa, >, last);
		last = search.pa;
		g_free(text);
	}
	vms_machine_unref(machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autofree char *text = vms_vmcoreinfo_text((struct vms_bytes) { data, size });
	struct vms_regs regs;
	uint64_t offset;
	int64_t number;
	scan(data, size);
	if (!text)
		return 0;
	g_assert_cmpuint(strlen(text), <=, VMS_VMCOREINFO_SIZE);
	g_autofree char *release = vms_vmcoreinfo_string(text, "OSRELEASE");
	g_assert_null(strchr(release, '\n'));
	vms_vmcoreinfo_hex(text, "KERNELOFFSET", &offset);
	vms_vmcoreinfo_number(text, "NUMBER(phys_base)", &number);
	vms_vmcoreinfo_number(text, "SYMBOL(init_uts_ns)", &number);
	vms_linux_aarch64.regs_from_vmcoreinfo(text, &regs);
	vms_linux_x86_64.regs_from_vmcoreinfo(text, &regs);
	return 0;
}
