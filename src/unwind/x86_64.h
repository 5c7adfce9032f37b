/* SPDX-License-Identifier: MIT */
/* Stepping out of frames of Linux's kernel on x86-64. */
#pragma once

#include "arch/x86_64.h"
#include "unwind/cursor.h"

/* Reads 64-bit words of the stack. */
bool vms_x86_64_read_stack(struct vms_cursor *cursor, uint64_t va, uint64_t *words, size_t n,
			   enum vms_walk_end *end);
/* Moves to what was interrupted, by the struct pt_regs at `va` that tells all its registers. */
bool vms_x86_64_step_regs(struct vms_cursor *cursor, uint64_t va, enum vms_walk_end *end);
/* The same by the five words that the processor pushes on interrupts and exceptions. */
bool vms_x86_64_step_iret(struct vms_cursor *cursor, uint64_t va, enum vms_walk_end *end);
/* Moves to the caller at `pc`; registers that a called function may change become unknown. */
bool vms_x86_64_step_call(struct vms_cursor *cursor, uint64_t pc, uint64_t sp, uint64_t bp,
			  enum vms_walk_end *end);

/*
 * What an ORC table would say of the innermost frame, told by the begin of its function
 * (prologue.c). Reads the guest's code.
 */
bool vms_x86_64_prologue(struct vms_cursor *cursor, struct vms_orc_entry *ret);

/* Moves to the caller as an entry of an ORC table says (orc_step.c). */
bool vms_x86_64_step_orc(struct vms_cursor *cursor, const struct vms_orc_entry *entry,
			 enum vms_walk_end *end);
