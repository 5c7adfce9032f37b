/* SPDX-License-Identifier: MIT */
/*
 * Addresses that direct calls go to, collected as code is translated. Where no table says where
 * functions begin, a jump to one of them is a tail call. Some may be forgotten. All functions here
 * may be called from any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* NULL: no memory. */
_Atomic uint64_t *callees_new(void);
void callees_free(_Atomic uint64_t *callees);
void callees_add(_Atomic uint64_t *callees, uint64_t va);
bool callees_have(const _Atomic uint64_t *callees, uint64_t va);
/*
 * True if there is one from `low` to `high` that is a multiple of `step`, or if they are so far
 * apart that there surely is.
 */
bool callees_have_between(const _Atomic uint64_t *callees, uint64_t low, uint64_t high,
			  unsigned step);
