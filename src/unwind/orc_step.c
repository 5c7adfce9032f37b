/* SPDX-License-Identifier: MIT */
/*
 * Steps by ORC entries, as Linux itself does (unwind_next_frame in arch/x86/kernel/unwind_orc.c).
 */
#include "unwind/x86_64.h"

static bool read_register(const struct vms_cursor *cursor, unsigned reg, uint64_t *ret,
			  enum vms_walk_end *end)
{
	*ret = cursor->regs.value[reg];
	*end = VMS_WALK_NO_INFO;
	return vms_regs_have(&cursor->regs, reg);
}

/*
 * Computes the caller's stack pointer. For an entry that stands for saved registers, this is the
 * address where they are.
 */
static bool find_previous_sp(struct vms_cursor *cursor, const struct vms_orc_entry *entry,
			     uint64_t *ret, enum vms_walk_end *end)
{
	const uint64_t offset = (uint64_t)entry->sp_offset;
	const uint64_t sp = cursor->regs.value[RSP], bp = cursor->regs.value[RBP];

	switch (entry->sp_reg) {
	case VMS_ORC_SP: *ret = sp + offset; return true;
	case VMS_ORC_BP: *ret = bp + offset; return true;
	case VMS_ORC_SP_INDIRECT:
		if (entry->sp_indirect_adds_first)
			return vms_x86_64_read_stack(cursor, sp + offset, ret, 1, end);
		if (!vms_x86_64_read_stack(cursor, sp, ret, 1, end))
			return false;
		*ret += offset;
		return true;
	case VMS_ORC_BP_INDIRECT: return vms_x86_64_read_stack(cursor, bp + offset, ret, 1, end);
	case VMS_ORC_AX: return read_register(cursor, RAX, ret, end);
	case VMS_ORC_DX: return read_register(cursor, RDX, ret, end);
	case VMS_ORC_DI: return read_register(cursor, RDI, ret, end);
	case VMS_ORC_R10: return read_register(cursor, R10, ret, end);
	case VMS_ORC_R13: return read_register(cursor, R13, ret, end);
	case VMS_ORC_UNDEFINED:
	case VMS_ORC_PREV_SP:
	default: *end = VMS_WALK_NO_INFO; return false;
	}
}

/* Computes the caller's frame pointer. `sp` is the caller's stack pointer. */
static bool find_previous_bp(struct vms_cursor *cursor, const struct vms_orc_entry *entry,
			     uint64_t sp, uint64_t *ret, enum vms_walk_end *end)
{
	const uint64_t offset = (uint64_t)entry->bp_offset;

	*ret = cursor->regs.value[RBP];
	if (entry->bp_reg == VMS_ORC_PREV_SP)
		return vms_x86_64_read_stack(cursor, sp + offset, ret, 1, end);
	if (entry->bp_reg == VMS_ORC_BP)
		return vms_x86_64_read_stack(cursor, *ret + offset, ret, 1, end);
	*end = VMS_WALK_NO_INFO;
	return entry->bp_reg == VMS_ORC_UNDEFINED;
}

/*
 * Steps out of the stub of an exception. The stub calls error_entry, which completes the struct
 * pt_regs on the stub's stack and goes on to C code. Until that returns to the stub, the stub's ORC
 * entry still describes the stack before the call. So if the words there make no sense, this takes
 * the complete struct pt_regs.
 */
static bool step_partial_regs(struct vms_cursor *cursor, uint64_t sp, uint64_t bp,
			      enum vms_walk_end *end)
{
	struct vms_cursor partial = *cursor;

	partial.regs.value[RBP] = bp;
	if (!vms_x86_64_step_iret(&partial, sp, end))
		return vms_x86_64_step_regs(cursor, cursor->regs.value[RSP], end);
	*cursor = partial;
	return true;
}

bool vms_x86_64_step_orc(struct vms_cursor *cursor, const struct vms_orc_entry *entry,
			 enum vms_walk_end *end)
{
	uint64_t sp, bp, pc;

	if (entry->type == VMS_ORC_TYPE_END || entry->type == VMS_ORC_TYPE_UNDEFINED) {
		*end = entry->type == VMS_ORC_TYPE_END ? VMS_WALK_ROOT : VMS_WALK_NO_INFO;
		return false;
	}
	if (!find_previous_sp(cursor, entry, &sp, end))
		return false;
	if (entry->type == VMS_ORC_TYPE_REGS)
		return vms_x86_64_step_regs(cursor, sp, end);
	if (!find_previous_bp(cursor, entry, sp, &bp, end))
		return false;
	if (entry->type == VMS_ORC_TYPE_REGS_PARTIAL)
		return step_partial_regs(cursor, sp, bp, end);
	if (!vms_x86_64_read_stack(cursor, sp - sizeof(pc), &pc, 1, end) ||
	    !vms_x86_64_step_call(cursor, pc, sp, bp, end))
		return false;
	cursor->is_return = !entry->signal;
	return true;
}
