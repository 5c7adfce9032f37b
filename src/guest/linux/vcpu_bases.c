/* SPDX-License-Identifier: MIT */
/*
 * Each CPU has its table of segments (GDT) in the per-CPU variable gdt_page, and loads GDTR with
 * another address of the same page, in the CPU's entry area (arch/x86/kernel/cpu/common.c,
 * load_direct_gdt and load_fixmap_gdt). So the physical page tells which CPU a vCPU is.
 */
#include "guest/linux/vcpu_bases.h"
#include "arch/x86_64.h"
#include "guest/linux/percpu.h"

/* Finds the CPU whose table lies at the physical address `pa`. */
static bool find_base(struct vms_linux *guest, uint64_t table, uint64_t pa, uint64_t *ret)
{
	const unsigned n = vms_linux_cpus(guest);
	for (unsigned cpu = 0; cpu < n; cpu++) {
		struct vms_page page;
		if (vms_linux_cpu_offset(guest, cpu, ret) &&
		    vms_memory_translate(guest->memory, *ret + table, &page) &&
		    page.pa + (*ret + table - page.va) == pa)
			return true;
	}
	return false;
}

static void learn_base(struct vms_linux *guest, uint64_t table, unsigned vcpu)
{
	struct vms_regs regs, learnt = { 0 };
	struct vms_page page;
	uint64_t base;
	if (!vms_machine_regs(guest->machine, vcpu, &regs, NULL) ||
	    vms_regs_have(&regs, K_GS_BASE) || !vms_regs_have(&regs, GDTR_BASE) ||
	    !vms_memory_translate(guest->memory, regs.value[GDTR_BASE], &page) ||
	    !find_base(guest, table, page.pa + (regs.value[GDTR_BASE] - page.va), &base))
		return;
	vms_regs_assume(&learnt, K_GS_BASE, base);
	vms_machine_add_regs(guest->machine, vcpu, &learnt);
}

void vms_linux_learn_bases(struct vms_linux *guest)
{
	uint64_t table;
	if (guest->arch != &vms_arch_x86_64 || !vms_linux_symbol(guest, "gdt_page", &table) ||
	    !vms_machine_hold(guest->machine, VMS_ALL_VCPUS, NULL))
		return;
	for (unsigned i = 0; i < vms_machine_vcpus(guest->machine); i++)
		learn_base(guest, table, i);
	vms_machine_release(guest->machine, VMS_ALL_VCPUS, NULL);
}
