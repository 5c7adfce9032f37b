/* SPDX-License-Identifier: MIT */
/*
 * A bare guest for probes: it counts, in memory and in a register, with a function call for every
 * step, so that each visit of a place is known by its number.
 */
#include "bare.h"

struct count {
	uint64_t mark, value;
};
struct count counts;

/* Called with 1, 2, 3 …; `count` is counted before. */
NOINLINE uint64_t counted(uint64_t number, struct count *count)
{
	__asm__ volatile(".globl counted_nop\ncounted_nop: nop" : : "D"(number), "S"(count));
	return number;
}

/* Clears 256 bytes by an instruction that repeats itself. */
NOINLINE void repeated(uint8_t *bytes)
{
	uint64_t n = 40;
	__asm__ volatile(".globl repeated_stos\nrepeated_stos: rep stosb"
			 : "+D"(bytes), "+c"(n)
			 : "a"(0)
			 : "memory");
}

static uint8_t bytes[256];

/* The steps between two visits begin at counted_step, with their number in rcx. */
void guest_main(void)
{
	print("READY\n");
	for (uint64_t number = 1;; number++) {
		counts.mark = 0x1122334455667788;
		counts.value = number;
		counted(number, &counts);
		for (uint64_t i = 0; i < 2000; i++)
			__asm__ volatile(".globl counted_step\ncounted_step:" : : "c"(i));
		repeated(bytes);
	}
}
