/* SPDX-License-Identifier: MIT */
/*
 * The vCPUs of a core file that a Linux kernel wrote of itself. Its notes have the registers that a
 * debugger of programs needs (struct elf_prstatus). They lack those that lead to memory: page
 * tables and the per-CPU base. The kernel's memory tells these.
 *
 * A CPU keeps its note in the per-CPU variable crash_notes (kernel/crash_core.c, before 6.9
 * kernel/kexec_core.c). The core file has the notes that were filled, in the order of the CPUs. A
 * CPU that did not answer when the kernel crashed has no note.
 */
#include "guest/linux/core_vcpus.h"
#include "guest/linux/kernel_image.h"
#include "guest/linux/percpu.h"
#include "guest/linux/task.h"

static bool has_crash_note(struct vms_linux *guest, unsigned cpu)
{
	uint64_t pointer, notes, offset;
	uint32_t name_size;
	return vms_linux_symbol(guest, "crash_notes", &pointer) &&
	       vms_memory_read_u64(guest->memory, pointer, &notes) &&
	       vms_linux_cpu_offset(guest, cpu, &offset) &&
	       vms_memory_read_u32(guest->memory, notes + offset, &name_size) && name_size != 0;
}

static bool is_online(struct vms_linux *guest, unsigned cpu)
{
	uint64_t mask, word;
	return vms_linux_symbol(guest, "__cpu_online_mask", &mask) &&
	       vms_memory_read_u64(guest->memory, mask + cpu / 64 * sizeof(word), &word) &&
	       (word >> cpu % 64 & 1);
}

/* Returns the number of the CPU for each vCPU of the file, as an array of unsigned. */
static GArray *list_cpus_of_file(struct vms_linux *guest)
{
	GArray *noted = g_array_new(FALSE, FALSE, sizeof(unsigned));
	g_autoptr(GArray) online = g_array_new(FALSE, FALSE, sizeof(unsigned));
	for (unsigned cpu = 0; cpu < vms_linux_cpus(guest); cpu++) {
		if (has_crash_note(guest, cpu))
			g_array_append_val(noted, cpu);
		if (is_online(guest, cpu))
			g_array_append_val(online, cpu);
	}
	/* Without notes the kernel did not crash: somebody else wrote the file, with all CPUs. */
	if (noted->len == 0)
		g_array_append_vals(noted, online->data, online->len);
	return noted;
}

/* Adds registers that the kernel's memory tells to a vCPU. `cpu` is its CPU; NULL if unknown. */
static void complete_vcpu(struct vms_linux *guest, const struct vms_linux_arch *arch, unsigned vcpu,
			  const unsigned *cpu)
{
	struct vms_regs regs;
	struct vms_task task;
	uint64_t base, root;
	if (!vms_machine_regs(guest->machine, vcpu, &regs, NULL) || arch->has_root(&regs))
		return;
	arch->share_root(vms_memory_regs(guest->memory), &regs);
	if (cpu && vms_linux_cpu_offset(guest, *cpu, &base))
		arch->set_percpu_base(&regs, base);
	if (vms_linux_current(guest, guest->memory, &regs, &task) &&
	    (root = vms_linux_page_tables(guest, guest->memory, task.mm)) != 0)
		arch->set_task_root(&regs, root);
	vms_machine_add_regs(guest->machine, vcpu, &regs);
}

void vms_linux_complete_vcpus(struct vms_linux *guest)
{
	const struct vms_linux_arch *arch = vms_linux_arch_of(guest->arch);
	if (!vms_machine_hold(guest->machine, VMS_ALL_VCPUS, NULL))
		return;
	g_autoptr(GArray) cpus = list_cpus_of_file(guest);
	for (unsigned i = 0; i < vms_machine_vcpus(guest->machine); i++)
		complete_vcpu(guest, arch, i,
			      i < cpus->len ? &g_array_index(cpus, unsigned, i) : NULL);
	vms_machine_release(guest->machine, VMS_ALL_VCPUS, NULL);
}
