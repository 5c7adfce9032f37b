/* SPDX-License-Identifier: MIT */
/*
 * Frames of Linux's kernel on aarch64. All its C code has frame records. Entry code makes a record
 * within struct pt_regs, chained to what was interrupted in the kernel, and the last one, of zeros,
 * where a user program was (kernel_entry in arch/arm64/kernel/entry.S; since 6.14 always zeros, and
 * a number behind them tells which).
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

static bool read_words(struct vms_cursor *cursor, uint64_t va, void *words, size_t size)
{
	return cursor->virt.read(cursor->virt.data, va, words, size);
}

/* Moves to what was interrupted. Kernel threads have registers of user mode too: zeros. */
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
	if (!read_words(cursor, va, regs, sizeof(regs)))
		return false;
	for (unsigned i = 0; i < PT_REGS_SP; i++)
		vms_regs_set(&cursor->regs, X0 + i, regs[i]);
	vms_regs_set(&cursor->regs, SP, regs[PT_REGS_SP]);
	return step_interrupted(cursor, regs[PT_REGS_PC], regs[PT_REGS_PSTATE], end);
}

/* Does the record at `fp` lie in a struct pt_regs, which says the same as the record? */
static bool is_in_regs(struct vms_cursor *cursor, uint64_t fp, const struct record *record)
{
	uint64_t regs[PT_REGS];
	if (record->fp == 0 && record->pc == 0)
		return true;
	return read_words(cursor, fp - vms_guest_pt_regs_record(cursor->guest), regs,
			  sizeof(regs)) &&
	       regs[X29] == record->fp && regs[PT_REGS_PC] == record->pc;
}

/*
 * Out of entry code that was at any of its instructions. While its frame pointer leads to the
 * struct pt_regs at the stack pointer that is complete; before and after, the processor's own
 * registers tell where the exception came from.
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
	if (regs->value[X29] == 0 && read_words(cursor, sp + X29 * sizeof(fp), &fp, sizeof(fp)))
		vms_regs_set(regs, X29, fp);
	if ((regs->value[SPSR_EL1] & CPSR_EL_MASK) == CPSR_EL0 &&
	    !cursor->arch->is_kernel_address(regs->value[SP_EL0]))
		vms_regs_set(regs, SP, regs->value[SP_EL0]);
	/* x30 is what it was, up to the first call. */
	if (vms_guest_is_entry_text(cursor->guest, regs->value[X30]))
		vms_regs_forget(regs, X30);
	return step_interrupted(cursor, regs->value[ELR_EL1], regs->value[SPSR_EL1], end);
}

/* Can `pc` be a return address? Code that BPF compiled is no text: the page tables tell. */
static bool is_return_address(struct vms_cursor *cursor, uint64_t pc)
{
	struct vms_page page;
	return pc % 4 == 0 && cursor->arch->is_kernel_address(pc) &&
	       (vms_guest_is_kernel_text(cursor->guest, pc) ||
		(vms_memory_translate(cursor->memory, pc - 1, &page) && page.executable &&
		 !page.user));
}

/*
 * Is x30 what the innermost function will return to? Where its frame record is not there yet, not
 * any more, or not needed. x30 leads into the function itself after a call.
 */
static bool is_link(struct vms_cursor *cursor, const struct record *record, uint64_t link)
{
	struct vms_location location;
	const uint64_t pc = cursor->regs.value[PC];
	if (!is_return_address(cursor, link) || !vms_aarch64_is_after_call(&cursor->virt, link) ||
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

static bool step(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	struct vms_regs *regs = &cursor->regs;
	const uint64_t fp = regs->value[X29], pc = regs->value[PC];
	const uint64_t link = vms_aarch64_strip_pac(regs, regs->value[X30]);
	const bool is_fp = fp % 8 == 0 && cursor->arch->is_kernel_address(fp);
	struct record record;

	if (!cursor->is_return && (!is_fp || vms_guest_is_entry_text(cursor->guest, pc)))
		return step_entry(cursor, end);
	const bool is_readable = is_fp && read_words(cursor, fp, &record, sizeof(record));
	if (!cursor->is_return && vms_regs_have(regs, X30) &&
	    is_link(cursor, is_readable ? &record : NULL, link)) {
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
	return is_return_address(cursor, regs->value[PC]);
}

const struct vms_kernel_unwinder vms_kernel_unwinder_aarch64 = {
	.arch = &vms_arch_aarch64,
	.step = step,
};
