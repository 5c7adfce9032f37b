/* SPDX-License-Identifier: MIT */
/* Linux on x86-64 (Documentation/arch/x86/x86_64/mm.rst). */
#include "arch/x86_64.h"
#include "guest/linux/kernel_image.h"
#include "guest/linux/vmcoreinfo.h"

#define START_KERNEL_MAP UINT64_C(0xffffffff80000000)

#define CR0_PG	 (UINT64_C(1) << 31)
#define CR4_PAE	 (UINT64_C(1) << 5)
#define CR4_LA57 (UINT64_C(1) << 12)
#define EFER_LMA (UINT64_C(1) << 10)

static void set_root(struct vms_regs *regs, uint64_t pa)
{
	vms_regs_set(regs, CR3, pa);
}

static bool regs_from_vmcoreinfo(const char *vmcoreinfo, struct vms_regs *ret)
{
	uint64_t root;
	int64_t phys_base, five_levels = 0;
	if (!vms_vmcoreinfo_hex(vmcoreinfo, "SYMBOL(swapper_pg_dir)", &root) ||
	    !vms_vmcoreinfo_number(vmcoreinfo, "NUMBER(phys_base)", &phys_base))
		return false;
	vms_vmcoreinfo_number(vmcoreinfo, "NUMBER(pgtable_l5_enabled)", &five_levels);
	*ret = (struct vms_regs) { 0 };
	set_root(ret, root - START_KERNEL_MAP + (uint64_t)phys_base);
	vms_regs_assume(ret, CR0, CR0_PG);
	vms_regs_assume(ret, CR4, CR4_PAE | (five_levels ? CR4_LA57 : 0));
	vms_regs_assume(ret, EFER, EFER_LMA);
	return true;
}

static bool has_root(const struct vms_regs *regs)
{
	return vms_regs_have(regs, CR3) && vms_regs_have(regs, CR0);
}

static void share_root(const struct vms_regs *kernel, struct vms_regs *regs)
{
	static const unsigned control[] = { CR0, CR3, CR4, EFER };
	for (unsigned i = 0; i < G_N_ELEMENTS(control); i++)
		vms_regs_copy(regs, kernel, control[i]);
}

static void set_percpu_base(struct vms_regs *regs, uint64_t base)
{
	vms_regs_set(regs, vms_arch_x86_64.in_kernel(regs) ? GS_BASE : K_GS_BASE, base);
}

static uint64_t get_page_size(const struct vms_regs *regs)
{
	(void)regs;
	return 4096;
}

const struct vms_linux_arch vms_linux_x86_64 = {
	.arch = &vms_arch_x86_64,
	.image_first = START_KERNEL_MAP,
	.image_last = UINT64_C(0xffffffffbfffffff),
	.link_text = UINT64_C(0xffffffff81000000),
	.root_symbol = "init_top_pgt",
	.set_root = set_root,
	.set_task_root = set_root,
	.regs_from_vmcoreinfo = regs_from_vmcoreinfo,
	.has_root = has_root,
	.share_root = share_root,
	.set_percpu_base = set_percpu_base,
	.page_size = get_page_size,
};
