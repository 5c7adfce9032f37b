/* SPDX-License-Identifier: MIT */
/* Linux on aarch64 (Documentation/arch/arm64/memory.rst). */
#include "arch/aarch64.h"
#include "guest/linux/kernel_image.h"
#include "guest/linux/vmcoreinfo.h"

static void set_root(struct vms_regs *regs, uint64_t pa)
{
	vms_aarch64_set_root(regs, TTBR1_EL1, pa);
}

static void set_task_root(struct vms_regs *regs, uint64_t pa)
{
	vms_aarch64_set_root(regs, TTBR0_EL1, pa);
}

/* Makes a TCR_EL1 whose two halves are alike. False if no kernel has such values. */
static bool make_tcr(int64_t size_offset, int64_t page_size, uint64_t *ret)
{
	const bool has_52_bits = size_offset == 12;
	uint64_t tg0, tg1;
	switch (page_size) {
	case 4096:
		tg0 = 0;
		tg1 = 2;
		break;
	case 16384:
		tg0 = 2;
		tg1 = 1;
		break;
	case 65536:
		tg0 = 1;
		tg1 = 3;
		break;
	default: return false;
	}
	*ret = (uint64_t)size_offset | (uint64_t)size_offset << 16 | tg0 << 14 | tg1 << 30 |
	       TCR_TBI0 | (has_52_bits ? TCR_IPS_52_BITS : 0) |
	       (has_52_bits && page_size != 65536 ? TCR_DS : 0);
	return size_offset >= 12 && size_offset < 48;
}

static bool regs_from_vmcoreinfo(const char *vmcoreinfo, struct vms_regs *ret)
{
	uint64_t root, tcr;
	int64_t voffset, size_offset, page_size = 4096;
	if (!vms_vmcoreinfo_hex(vmcoreinfo, "SYMBOL(swapper_pg_dir)", &root) ||
	    !vms_vmcoreinfo_number(vmcoreinfo, "NUMBER(kimage_voffset)", &voffset) ||
	    !vms_vmcoreinfo_number(vmcoreinfo, "NUMBER(TCR_EL1_T1SZ)", &size_offset))
		return false;
	vms_vmcoreinfo_number(vmcoreinfo, "PAGESIZE", &page_size);
	if (!make_tcr(size_offset, page_size, &tcr))
		return false;
	*ret = (struct vms_regs) { 0 };
	vms_regs_assume(ret, SCTLR_EL1, SCTLR_EL1_M);
	vms_regs_assume(ret, TCR_EL1, tcr);
	set_root(ret, root - (uint64_t)voffset);
	return true;
}

static bool has_root(const struct vms_regs *regs)
{
	return vms_regs_have(regs, TTBR1_EL1) && vms_regs_have(regs, TCR_EL1);
}

static void share_root(const struct vms_regs *kernel, struct vms_regs *regs)
{
	static const unsigned control[] = { SCTLR_EL1, TCR_EL1, TTBR1_EL1 };
	for (unsigned i = 0; i < G_N_ELEMENTS(control); i++)
		vms_regs_copy(regs, kernel, control[i]);
}

static void set_percpu_base(struct vms_regs *regs, uint64_t base)
{
	vms_regs_set(regs, TPIDR_EL1, base);
}

/* Both halves of the address space have pages of one size. TG1 tells it; 0 is a reserved value. */
static uint64_t get_page_size(const struct vms_regs *regs)
{
	static const uint64_t sizes[] = { 4096, 16384, 4096, 65536 };
	return sizes[vms_aarch64_field(regs->value[TCR_EL1], 31, 30)];
}

/*
 * Since 5.4 the lower part of the kernel's half is for the linear map alone. KASLR places the image
 * anywhere in the upper part.
 */
const struct vms_linux_arch vms_linux_aarch64 = {
	.arch = &vms_arch_aarch64,
	.image_first = UINT64_C(0xffff800000000000),
	.image_last = UINT64_MAX,
	.link_text = UINT64_C(0xffff800080000000),
	.root_symbol = "swapper_pg_dir",
	.set_root = set_root,
	.set_task_root = set_task_root,
	.regs_from_vmcoreinfo = regs_from_vmcoreinfo,
	.has_root = has_root,
	.share_root = share_root,
	.set_percpu_base = set_percpu_base,
	.page_size = get_page_size,
};
