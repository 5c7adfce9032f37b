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

/* What no instruction of this guest uses, but who looks into it is to find. */
static void set_registers(void)
{
	static const struct {
		uint32_t msr;
		uint64_t value;
	} set[] = {
		{ 0x174, 0x1230 },		    /* SYSENTER_CS */
		{ 0x175, 0xffff800011112200 },	    /* SYSENTER_ESP */
		{ 0x176, 0x7fff11112222 },	    /* SYSENTER_EIP */
		{ 0x277, 0x0006040100070406 },	    /* PAT */
		{ 0xc0000081, 0x0023001000001234 }, /* STAR */
		{ 0xc0000082, 0xffff812345678900 }, /* LSTAR */
		{ 0xc0000083, 0xffff81abcdef0000 }, /* CSTAR */
		{ 0xc0000084, 0x47700 },	    /* SFMASK */
	};
	for (unsigned i = 0; i < sizeof(set) / sizeof(*set); i++)
		__asm__ volatile("wrmsr"
				 :
				 : "c"(set[i].msr), "a"((uint32_t)set[i].value),
				   "d"((uint32_t)(set[i].value >> 32)));
}

void guest_main(void)
{
	set_registers();
	print("READY\n");
	for (;;) {
		major();
		minor();
	}
}
