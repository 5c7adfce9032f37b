/* SPDX-License-Identifier: MIT */
/*
 * Frames of Linux's kernel on x86-64: the saved registers of exceptions, and the choice of the way
 * to step. Kernels with ORC tables have no frame pointers, except in code that the tables do
 * not list (compiled BPF programs). Kernels without ORC tables have frame pointers in all code
 * (arch/x86/kernel/unwind_frame.c).
 */
#include "unwind/x86_64.h"

/* Selectors of code segments (asm/segment.h): the kernel's, and the user's for 64 and 32 bits. */
#define KERNEL_CS 0x10
#define USER_CS	  0x33
#define USER32_CS 0x23
/* Code that is compiled at run time is in the area of modules (asm/pgtable_64_types.h). */
#define MODULES	    UINT64_C(0xffffffffa0000000)
#define MODULES_END UINT64_C(0xffffffffff000000)

/* The registers of struct pt_regs in its order. orig_ax is no register: RIP overwrites it. */
static const uint8_t pt_regs[] = { R15, R14, R13, R12, RBP, RBX, R11, R10,    R9,  R8, RAX,
				   RCX, RDX, RSI, RDI, RIP, RIP, CS,  EFLAGS, RSP, SS };
/* The registers that the processor pushes. They are the end of struct pt_regs. */
static const uint8_t iret_regs[] = { RIP, CS, EFLAGS, RSP, SS };

#define BIT(reg) (UINT64_C(1) << (reg))
#define GENERAL                                                                                    \
	(BIT(RAX) | BIT(RBX) | BIT(RCX) | BIT(RDX) | BIT(RSI) | BIT(RDI) | BIT(RBP) | BIT(RSP) |   \
	 BIT(R8) | BIT(R9) | BIT(R10) | BIT(R11) | BIT(R12) | BIT(R13) | BIT(R14) | BIT(R15))
/*
 * The registers, of those that ORC uses, that a stub has not changed before struct pt_regs is
 * complete.
 */
#define KEPT_BY_STUBS (BIT(RAX) | BIT(RDX) | BIT(RDI) | BIT(R10) | BIT(R13) | BIT(RBP))

bool vms_x86_64_read_stack(struct vms_cursor *cursor, uint64_t va, uint64_t *words, size_t n,
			   enum vms_walk_end *end)
{
	*end = VMS_WALK_UNREADABLE;
	return cursor->virt.read(cursor->virt.data, va, words, n * sizeof(*words));
}

/*
 * Moves to the code that was interrupted. The stack at `va` has the values of the `n` registers in
 * `names`. Other general registers become unknown, except those in the mask `kept`.
 */
static bool step_interrupted(struct vms_cursor *cursor, uint64_t va, const uint8_t *names, size_t n,
			     uint64_t kept, enum vms_walk_end *end)
{
	uint64_t words[G_N_ELEMENTS(pt_regs)];
	if (!vms_x86_64_read_stack(cursor, va, words, n, end))
		return false;
	cursor->regs.valid[0] &= ~GENERAL | kept;
	for (size_t i = 0; i < n; i++)
		vms_regs_set(&cursor->regs, names[i], words[i]);
	cursor->is_return = false;

	uint64_t cs = cursor->regs.value[CS];
	cursor->is_user = cs == USER_CS || cs == USER32_CS;
	*end = VMS_WALK_BAD_FRAME;
	return (cursor->is_user || cs == KERNEL_CS) &&
	       cursor->arch->is_kernel_address(cursor->regs.value[RIP]) != cursor->is_user;
}

bool vms_x86_64_step_regs(struct vms_cursor *cursor, uint64_t va, enum vms_walk_end *end)
{
	return step_interrupted(cursor, va, pt_regs, G_N_ELEMENTS(pt_regs), 0, end);
}

bool vms_x86_64_step_iret(struct vms_cursor *cursor, uint64_t va, enum vms_walk_end *end)
{
	return step_interrupted(cursor, va, iret_regs, G_N_ELEMENTS(iret_regs), KEPT_BY_STUBS, end);
}

bool vms_x86_64_step_call(struct vms_cursor *cursor, uint64_t pc, uint64_t sp, uint64_t bp,
			  enum vms_walk_end *end)
{
	cursor->regs.valid[0] &= ~GENERAL;
	vms_regs_set(&cursor->regs, RIP, pc);
	vms_regs_set(&cursor->regs, RSP, sp);
	vms_regs_set(&cursor->regs, RBP, bp);
	cursor->is_return = true;
	*end = VMS_WALK_BAD_FRAME;
	return cursor->arch->is_kernel_address(pc);
}

/*
 * Steps out of the entry code of system calls (entry_SYSCALL_64). It has no frame of its own: it
 * clears the frame pointer, and its struct pt_regs is on top of the stack.
 */
static bool step_entry(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	if (!cursor->is_return || !vms_x86_64_step_regs(cursor, cursor->regs.value[RSP], end) ||
	    !cursor->is_user) {
		*end = VMS_WALK_ROOT;
		return false;
	}
	return true;
}

/*
 * Steps by a frame pointer whose lowest bit is set: the rest is the address of a struct pt_regs
 * (ENCODE_FRAME_POINTER, asm/frame.h). Kernel threads have a struct pt_regs of user mode too, which
 * is all zeros.
 */
static bool step_encoded_pointer(struct vms_cursor *cursor, uint64_t bp, enum vms_walk_end *end)
{
	if (vms_x86_64_step_regs(cursor, bp - 1, end))
		return true;
	if (cursor->regs.value[RIP] == 0 && cursor->regs.value[CS] == 0)
		*end = VMS_WALK_ROOT;
	return false;
}

/*
 * True if `pc` may be a return address in the kernel: in its text, or in an executable page of the
 * area of modules.
 */
static bool is_kernel_code(struct vms_cursor *cursor, uint64_t pc)
{
	struct vms_page page;
	return vms_guest_is_kernel_text(cursor->guest, pc) ||
	       (pc >= MODULES && pc < MODULES_END &&
		vms_memory_translate(cursor->memory, pc - 1, &page) && page.executable);
}

static bool step_frame_pointer(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	uint64_t bp = cursor->regs.value[RBP];
	uint64_t frame[2]; /* the caller's frame pointer, the return address */

	if (bp & 1)
		return step_encoded_pointer(cursor, bp, end);
	if (bp == 0 && !vms_guest_has_orc(cursor->guest))
		return step_entry(cursor, end);
	*end = VMS_WALK_NO_INFO;
	if (bp % sizeof(*frame) != 0 || !cursor->arch->is_kernel_address(bp))
		return false;
	return vms_x86_64_read_stack(cursor, bp, frame, G_N_ELEMENTS(frame), end) &&
	       vms_x86_64_step_call(cursor, frame[1], bp + sizeof(frame), frame[0], end) &&
	       is_kernel_code(cursor, frame[1]);
}

static bool is_after_call(struct vms_cursor *cursor, uint64_t pc)
{
	return vms_guest_is_kernel_text(cursor->guest, pc) &&
	       vms_x86_64_is_after_call(&cursor->virt, pc);
}

/* Steps by a guessed entry. Fails if the step does not lead to the end of a call instruction. */
static bool step_by_guess(struct vms_cursor *cursor, const struct vms_orc_entry *guess,
			  enum vms_walk_end *end)
{
	const uint64_t pc = cursor->regs.value[RIP], near = 16;
	struct vms_cursor next = *cursor;
	if (guess->sp_offset <= 0 || !vms_x86_64_step_orc(&next, guess, end) ||
	    next.regs.value[RIP] - pc + near <= 2 * near ||
	    !is_after_call(&next, next.regs.value[RIP]))
		return false;
	*cursor = next;
	return true;
}

/*
 * Steps out of the innermost frame, which may be at any instruction. Retpolines, and the code that
 * fills the processor's return stack (asm/nospec-branch.h), push addresses to which nobody returns.
 * The ORC entries of such code are missing or wrong. Then the return address is in a word
 * nearby on the stack.
 */
static bool step_innermost(struct vms_cursor *cursor, const struct vms_orc_entry *entry,
			   enum vms_walk_end *end)
{
	static const int8_t shifts[] = { 0, 8, 16, -8, -16 };
	const bool unknown =
		entry->type == VMS_ORC_TYPE_UNDEFINED || entry->type == VMS_ORC_TYPE_END;
	struct vms_orc_entry guess = *entry;
	if (unknown)
		guess = (struct vms_orc_entry) { .type = VMS_ORC_TYPE_CALL,
						 .sp_reg = VMS_ORC_SP,
						 .sp_offset = 8 };
	const bool by_sp = guess.type == VMS_ORC_TYPE_CALL && guess.sp_reg == VMS_ORC_SP;
	for (size_t i = 0; i < G_N_ELEMENTS(shifts) && by_sp; i++) {
		struct vms_orc_entry shifted = guess;
		shifted.sp_offset = (int16_t)(guess.sp_offset + shifts[i]);
		if (step_by_guess(cursor, &shifted, end))
			return true;
	}
	if (unknown && vms_x86_64_prologue(cursor, &guess) && step_by_guess(cursor, &guess, end))
		return true;
	return vms_x86_64_step_orc(cursor, entry, end);
}

static bool step_kernel(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	struct vms_orc_entry entry;
	uint64_t pc = cursor->regs.value[RIP];
	/* If a call is its function's last instruction, the return address is in the next one. */
	if (!vms_guest_orc(cursor->guest, cursor->is_return ? pc - 1 : pc, &entry))
		return step_frame_pointer(cursor, end);
	if (!cursor->is_return)
		return step_innermost(cursor, &entry, end);
	return vms_x86_64_step_orc(cursor, &entry, end);
}

static const uint8_t used_regs[] = { RIP, RSP, RBP, CS, RAX, RDX, RDI, R10, R13 };

const struct vms_kernel_unwinder vms_kernel_unwinder_x86_64 = {
	.arch = &vms_arch_x86_64,
	.regs = used_regs,
	.n_regs = G_N_ELEMENTS(used_regs),
	.step = step_kernel,
};
