/* SPDX-License-Identifier: MIT */
/*
 * A bare guest with a known call tree: three quarters of the time in major > work, one quarter
 * in minor > helper > work. `work` is one loop, so its share follows from the rounds alone.
 */
#include "bare.h"

NOINLINE void work(uint64_t rounds)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(rounds));
}

NOINLINE void major(void)
{
	work(30000);
	__asm__ volatile("");
}

NOINLINE void helper(void)
{
	work(10000);
	__asm__ volatile("");
}

NOINLINE void minor(void)
{
	helper();
	__asm__ volatile("");
}

void guest_main(void)
{
	print("READY\n");
	for (;;) {
		major();
		minor();
	}
}
