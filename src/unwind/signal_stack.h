/* SPDX-License-Identifier: MIT */
/* Handlers of signals that have a stack of their own (sigaltstack(2)). */
#pragma once

#include "unwind/copied_stack.h"

/*
 * Finds, in what was copied of such a stack, the stack pointer of the code that the signal has
 * interrupted, which is on another stack. False if the copied part has no frame of a signal, or if
 * that is of the same stack.
 */
bool vms_find_interrupted_stack(const struct vms_arch *arch, const struct vms_stack_part *part,
				uint64_t *sp);
