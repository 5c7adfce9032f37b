/* SPDX-License-Identifier: MIT */
#include "agent/calls/callees.h"

#include <stdlib.h>

#define BITS 18
#define WAYS 8 /* an address can be in one of so many places */
#define FAR  65536

_Atomic uint64_t *callees_new(void)
{
	return calloc((1U << BITS) + WAYS, sizeof(uint64_t));
}

void callees_free(_Atomic uint64_t *callees)
{
	free((void *)callees);
}

static uint64_t first_place(uint64_t va)
{
	return va * 0x9e3779b97f4a7c15ULL >> (64 - BITS);
}

void callees_add(_Atomic uint64_t *callees, uint64_t va)
{
	_Atomic uint64_t *place = callees + first_place(va);
	for (unsigned i = 0; i < WAYS; i++) {
		uint64_t there = atomic_load_explicit(place + i, memory_order_relaxed);
		if (there == va)
			return;
		if (there == 0) {
			atomic_store_explicit(place + i, va, memory_order_relaxed);
			return;
		}
	}
	atomic_store_explicit(place + va % WAYS, va, memory_order_relaxed);
}

bool callees_have(const _Atomic uint64_t *callees, uint64_t va)
{
	const _Atomic uint64_t *place = callees + first_place(va);
	for (unsigned i = 0; i < WAYS; i++)
		if (atomic_load_explicit(place + i, memory_order_relaxed) == va)
			return va != 0;
	return false;
}

bool callees_have_between(const _Atomic uint64_t *callees, uint64_t low, uint64_t high,
			  unsigned step)
{
	if (high - low > FAR)
		return true;
	for (uint64_t va = low + (step - low % step) % step; va <= high; va += step)
		if (callees_have(callees, va))
			return true;
	return false;
}
