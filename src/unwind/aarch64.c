/* SPDX-License-Identifier: MIT */
/*
 * Frames of Linux's kernel on aarch64. All its C code has frame records. Entry code makes a frame
 * record inside struct pt_regs (kernel_entry in arch/arm64/kernel/entry.S). If kernel code was
 * interrupted, this record leads to the frame record of that code. If a user program was
 * interrupted, the record is all zeros and the last one. Since Linux 6.14 it is zeros in both
 * cases, and a number behind it tells them apart.
 */
#include "arch/aarch64.h"
#include "unwind/cursor.h"

/* struct pt_regs begins with x0 to x30, sp, pc and pstate. */
#define PT_REGS_SP     31
#define PT_REGS_PC     32
#define PT_REGS_PSTATE 33
#define PT_REGS	       34

struct record {
	uint64_t fp, pc;
};

static bool read_stack(struct vms_cursor *cursor, uint64_t va, void *words, size_t size)
{
	return cursor->virt.read(cursor->virt.data, va, words, size);
}

/*
 * Moves to the code that was interrupted. Kernel threads have registers of user mode too: these are
 * zeros, and so the walk ends there.
 */
static bool step_interrupted(struct vms_cursor *cursor, uint64_t pc, uint64_t pstate,
			     enum vms_walk_end *end)
{
	vms_regs_set(&cursor->regs, PC, pc);
	vms_regs_set(&cursor->regs, CPSR, pstate);
	cursor->is_user = !cursor->arch->in_kernel(&cursor->regs);
	cursor->is_return = false;
	*end = pc == 0 ? VMS_WALK_ROOT : VMS_WALK_BAD_FRAME;
	return pc != 0 && pstate <= UINT32_MAX &&
	       cursor->arch->is_kernel_address(pc) != cursor->is_user;
}

static bool step_regs(struct vms_cursor *cursor, uint64_t va, enum vms_walk_end *end)
{
	uint64_t regs[PT_REGS];
	*end = VMS_WALK_UNREADABLE;
	if (!read_stack(cursor, va, regs, sizeof(regs)))
		return false;
	for (unsigned i = 0; i < PT_REGS_SP; i++)
		vms_regs_set(&cursor->regs, X0 + i, regs[i]);
	vms_regs_set(&cursor->regs, SP, regs[PT_REGS_SP]);
	return step_interrupted(cursor, regs[PT_REGS_PC], regs[PT_REGS_PSTATE], end);
}

/*
 * True if the record at `fp` is inside a struct pt_regs: if it is all zeros, or has the same values
 * as the struct.
 */
static bool is_in_regs(struct vms_cursor *cursor, uint64_t fp, const struct record *record)
{
	uint64_t regs[PT_REGS];
	if (record->fp == 0 && record->pc == 0)
		return true;
	return read_stack(cursor, fp - vms_guest_pt_regs_record(cursor->guest), regs,
			  sizeof(regs)) &&
	       regs[X29] == record->fp && regs[PT_REGS_PC] == record->pc;
}

/*
 * Steps out of entry code, which may be at any of its instructions. If the frame pointer leads to
 * the struct pt_regs at the stack pointer, that struct is complete. If not, the processor's
 * exception registers tell what was interrupted.
 */
static bool step_entry(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	struct vms_regs *regs = &cursor->regs;
	const uint64_t sp = regs->value[SP];
	uint64_t fp;

	*end = VMS_WALK_NO_INFO;
	if (regs->value[X29] == sp + vms_guest_pt_regs_record(cursor->guest))
		return step_regs(cursor, sp, end);
	if (!vms_regs_have(regs, ELR_EL1) || !vms_regs_have(regs, SPSR_EL1))
		return false;
	/* Entry code clears the user's registers after it has saved them. */
	if (regs->value[X29] == 0 && read_stack(cursor, sp + X29 * sizeof(fp), &fp, sizeof(fp)))
		vms_regs_set(regs, X29, fp);
	if ((regs->value[SPSR_EL1] & CPSR_EL_MASK) == CPSR_EL0 &&
	    !cursor->arch->is_kernel_address(regs->value[SP_EL0]))
		vms_regs_set(regs, SP, regs->value[SP_EL0]);
	/* Up to its first call, entry code leaves x30 as it was. */
	if (vms_guest_is_entry_text(cursor->guest, regs->value[X30]))
		vms_regs_forget(regs, X30);
	return step_interrupted(cursor, regs->value[ELR_EL1], regs->value[SPSR_EL1], end);
}

/*
 * True if `pc` may be a return address. Compiled BPF programs are outside of the kernel's text; for
 * them the page tables tell what is executable.
 */
static bool may_be_return_address(struct vms_cursor *cursor, uint64_t pc)
{
	struct vms_page page;
	return pc % 4 == 0 && cursor->arch->is_kernel_address(pc) &&
	       (vms_guest_is_kernel_text(cursor->guest, pc) ||
		(vms_memory_translate(cursor->memory, pc - 1, &page) && page.executable &&
		 !page.user));
}

/*
 * True if the innermost function will return to x30 (`link`), and so has no frame record of its
 * own: not yet, not any more, or never. After a call x30 is an address inside the function itself.
 * `record` is the record at the frame pointer, or NULL if that cannot be read.
 */
static bool is_in_link_register(struct vms_cursor *cursor, const struct record *record,
				uint64_t link)
{
	struct vms_location location;
	const uint64_t pc = cursor->regs.value[PC];
	if (!may_be_return_address(cursor, link) ||
	    !vms_aarch64_is_after_call(&cursor->virt, link) ||
	    (record && link == vms_aarch64_strip_pac(&cursor->regs, record->pc)))
		return false;
	return vms_guest_locate(cursor->guest, NULL, pc, &location) && location.symbol &&
	       (link <= location.start || link - location.start > location.size);
}

static void move_to_caller(struct vms_cursor *cursor, uint64_t pc, uint64_t sp, uint64_t fp)
{
	for (unsigned reg = X0; reg <= X18; reg++)
		vms_regs_forget(&cursor->regs, reg);
	vms_regs_forget(&cursor->regs, X30);
	vms_regs_set(&cursor->regs, PC, pc);
	vms_regs_set(&cursor->regs, SP, sp);
	vms_regs_set(&cursor->regs, X29, fp);
	cursor->is_return = true;
}

static bool step_kernel(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	struct vms_regs *regs = &cursor->regs;
	const uint64_t fp = regs->value[X29], pc = regs->value[PC];
	const uint64_t link = vms_aarch64_strip_pac(regs, regs->value[X30]);
	const bool is_fp = fp % 8 == 0 && cursor->arch->is_kernel_address(fp);
	struct record record;

	if (!cursor->is_return && (!is_fp || vms_guest_is_entry_text(cursor->guest, pc)))
		return step_entry(cursor, end);
	const bool is_readable = is_fp && read_stack(cursor, fp, &record, sizeof(record));
	if (!cursor->is_return && vms_regs_have(regs, X30) &&
	    is_in_link_register(cursor, is_readable ? &record : NULL, link)) {
		move_to_caller(cursor, link, regs->value[SP], fp);
		return true;
	}
	*end = is_fp ? VMS_WALK_UNREADABLE : VMS_WALK_NO_INFO;
	if (!is_readable)
		return false;
	if (is_in_regs(cursor, fp, &record))
		return step_regs(cursor, fp - vms_guest_pt_regs_record(cursor->guest), end);
	move_to_caller(cursor, vms_aarch64_strip_pac(regs, record.pc), fp + sizeof(record),
		       record.fp);
	*end = VMS_WALK_BAD_FRAME;
	return may_be_return_address(cursor, regs->value[PC]);
}

static const uint8_t used_regs[] = { PC, SP, X29, X30, CPSR, SP_EL0, ELR_EL1, SPSR_EL1 };

const struct vms_kernel_unwinder vms_kernel_unwinder_aarch64 = {
	.arch = &vms_arch_aarch64,
	.regs = used_regs,
	.n_regs = G_N_ELEMENTS(used_regs),
	.step = step_kernel,
};
