/* SPDX-License-Identifier: MIT */
#include "machine/kvm/vcpu_regs.h"

#include "arch/x86_64.h"

/* Access rights in the form of the VMCS (Intel SDM volume 3, "Guest Register State"). */
static uint64_t rights_of(const struct kvm_segment *segment)
{
	return (uint64_t)(segment->type & 15) | (uint64_t)(segment->s & 1) << 4 |
	       (uint64_t)(segment->dpl & 3) << 5 | (uint64_t)(segment->present & 1) << 7 |
	       (uint64_t)(segment->avl & 1) << 12 | (uint64_t)(segment->l & 1) << 13 |
	       (uint64_t)(segment->db & 1) << 14 | (uint64_t)(segment->g & 1) << 15;
}

static void set_system_regs(const struct kvm_sregs *sregs, struct vms_regs *ret)
{
	const struct {
		const struct kvm_segment *segment;
		unsigned selector, base, limit, attr;
	} known[] = {
		{ &sregs->cs, CS, CS_BASE, CS_LIMIT, CS_ATTR },
		{ &sregs->ss, SS, SS_BASE, SS_LIMIT, SS_ATTR },
		{ &sregs->ds, DS, DS_BASE, DS_LIMIT, DS_ATTR },
		{ &sregs->es, ES, ES_BASE, ES_LIMIT, ES_ATTR },
		{ &sregs->fs, FS, FS_BASE, FS_LIMIT, FS_ATTR },
		{ &sregs->gs, GS, GS_BASE, GS_LIMIT, GS_ATTR },
		{ &sregs->ldt, LDTR, LDTR_BASE, LDTR_LIMIT, LDTR_ATTR },
		{ &sregs->tr, TR, TR_BASE, TR_LIMIT, TR_ATTR },
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const struct kvm_segment *segment = known[i].segment;
		vms_regs_set(ret, known[i].selector, segment->selector);
		vms_regs_set(ret, known[i].base, segment->base);
		vms_regs_set(ret, known[i].limit, segment->limit);
		vms_regs_set(ret, known[i].attr, rights_of(segment));
	}
	vms_regs_set(ret, GDTR_BASE, sregs->gdt.base);
	vms_regs_set(ret, GDTR_LIMIT, sregs->gdt.limit);
	vms_regs_set(ret, IDTR_BASE, sregs->idt.base);
	vms_regs_set(ret, IDTR_LIMIT, sregs->idt.limit);
	if (sregs->apic_base != VMS_KVM_NOT_STORED)
		vms_regs_set(ret, APIC_BASE, sregs->apic_base);
}

void vms_kvm_set_regs(const struct kvm_regs *regs, const struct kvm_sregs *sregs,
		      struct vms_regs *ret)
{
	const struct {
		unsigned index;
		uint64_t value;
	} known[] = {
		{ RAX, regs->rax },  { RBX, regs->rbx },  { RCX, regs->rcx },
		{ RDX, regs->rdx },  { RSI, regs->rsi },  { RDI, regs->rdi },
		{ RBP, regs->rbp },  { RSP, regs->rsp },  { R8, regs->r8 },
		{ R9, regs->r9 },    { R10, regs->r10 },  { R11, regs->r11 },
		{ R12, regs->r12 },  { R13, regs->r13 },  { R14, regs->r14 },
		{ R15, regs->r15 },  { RIP, regs->rip },  { EFLAGS, regs->rflags },
		{ CR0, sregs->cr0 }, { CR2, sregs->cr2 }, { CR3, sregs->cr3 },
		{ CR4, sregs->cr4 }, { CR8, sregs->cr8 }, { EFER, sregs->efer },
	};
	*ret = (struct vms_regs) { 0 };
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		vms_regs_set(ret, known[i].index, known[i].value);
	set_system_regs(sregs, ret);
}
