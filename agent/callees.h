/* SPDX-License-Identifier: MIT */
/*
 * Addresses that direct calls go to, remembered as code is translated: where no table tells where
 * functions begin, they are what a jump must go to in order to be a tail call. Some may be
 * forgotten. From any thread.
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
/* Is there one from `low` up to `high` that is a multiple of `step`? Far apart, there surely is. */
bool callees_have_between(const _Atomic uint64_t *callees, uint64_t low, uint64_t high,
			  unsigned step);
