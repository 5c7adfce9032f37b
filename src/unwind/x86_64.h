/* SPDX-License-Identifier: MIT */
/*
 * Steps out of frames of Linux's kernel on x86-64. A function with `end` returns false and sets
 * *end if it fails, as vms_kernel_unwinder.step does.
 */
#pragma once

#include "arch/x86_64.h"
#include "unwind/cursor.h"

/* Reads `n` 64-bit words of the stack. */
bool vms_x86_64_read_stack(struct vms_cursor *cursor, uint64_t va, uint64_t *words, size_t n,
			   enum vms_walk_end *end);
/* Moves to the code that was interrupted. The struct pt_regs at `va` has all its registers. */
bool vms_x86_64_step_regs(struct vms_cursor *cursor, uint64_t va, enum vms_walk_end *end);
/*
 * Moves to the code that was interrupted. The five words that the processor pushes on interrupts
 * and exceptions are at `va`.
 */
bool vms_x86_64_step_iret(struct vms_cursor *cursor, uint64_t va, enum vms_walk_end *end);
/* Moves to the caller at `pc`. Registers that a called function may change become unknown. */
bool vms_x86_64_step_call(struct vms_cursor *cursor, uint64_t pc, uint64_t sp, uint64_t bp,
			  enum vms_walk_end *end);

/*
 * Guesses the ORC entry of the innermost frame from the first instructions of its function, which
 * it reads from the guest (prologue.c). False if the function is not known or cannot be read.
 */
bool vms_x86_64_prologue(struct vms_cursor *cursor, struct vms_orc_entry *ret);

/* Moves to the caller by an entry of an ORC table (orc_step.c). */
bool vms_x86_64_step_orc(struct vms_cursor *cursor, const struct vms_orc_entry *entry,
			 enum vms_walk_end *end);
