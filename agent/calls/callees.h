/* SPDX-License-Identifier: MIT */
/*
 * A set of the targets of direct calls in translated code. For code without a table of functions, a
 * jump to such a target counts as a tail call. The set may forget some. Any thread may call these
 * functions.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* NULL if there is no memory. */
_Atomic uint64_t *callees_new(void);
void callees_free(_Atomic uint64_t *callees);
void callees_add(_Atomic uint64_t *callees, uint64_t va);
bool callees_have(const _Atomic uint64_t *callees, uint64_t va);
/*
 * True if a multiple of `step` in [low, high] is a callee. Also true if the range is so large that
 * it certainly contains one.
 */
bool callees_have_between(const _Atomic uint64_t *callees, uint64_t low, uint64_t high,
			  unsigned step);
