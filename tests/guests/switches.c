/* SPDX-License-Identifier: MIT */
/*
 * Functions with switches that compilers turn into tables. Each case calls a function of its own,
 * so that the calls tell which cases a graph has. What is between the cases makes the entries of
 * aarch64's tables 1, 2 and 4 bytes wide. Nothing here is ever executed.
 */
#define NOINLINE __attribute__((noinline))

/* The compiler takes every line for an instruction, and makes room in its tables for so many. */
#define NOPS_10	     "nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\n"
#define NOPS_50	     NOPS_10 NOPS_10 NOPS_10 NOPS_10 NOPS_10
#define NOPS_500     NOPS_50 NOPS_50 NOPS_50 NOPS_50 NOPS_50 NOPS_50 NOPS_50 NOPS_50 NOPS_50 NOPS_50
#define NOPS_4000    NOPS_500 NOPS_500 NOPS_500 NOPS_500 NOPS_500 NOPS_500 NOPS_500 NOPS_500
#define INSERT(nops) __asm__ volatile(nops)

volatile unsigned output;

#define CASE_FUNCTION(n)                                                                           \
	NOINLINE void case_##n(void)                                                               \
	{                                                                                          \
		output += (n)*3 + 1;                                                               \
	}
CASE_FUNCTION(0)
CASE_FUNCTION(1)
CASE_FUNCTION(2)
CASE_FUNCTION(3)
CASE_FUNCTION(4)
CASE_FUNCTION(5)
CASE_FUNCTION(6)
CASE_FUNCTION(7)
CASE_FUNCTION(8)
CASE_FUNCTION(9)
CASE_FUNCTION(10)
CASE_FUNCTION(11)
CASE_FUNCTION(12)
CASE_FUNCTION(13)
CASE_FUNCTION(14)
CASE_FUNCTION(15)
CASE_FUNCTION(16)
CASE_FUNCTION(17)

NOINLINE void case_none(void)
{
	output = 0;
}

#define CASE(n, between)                                                                           \
	case n:                                                                                    \
		case_##n();                                                                        \
		output ^= (n);                                                                     \
		between;                                                                           \
		break;

#define SWITCH(value, between)                                                                     \
	switch (value) {                                                                           \
		CASE(0, between)                                                                   \
		CASE(1, between)                                                                   \
		CASE(2, between)                                                                   \
		CASE(3, between)                                                                   \
		CASE(4, between)                                                                   \
		CASE(5, between)                                                                   \
		CASE(6, between)                                                                   \
		CASE(7, between)                                                                   \
		CASE(8, between)                                                                   \
		CASE(9, between)                                                                   \
		CASE(10, between)                                                                  \
		CASE(11, between)                                                                  \
		CASE(12, between)                                                                  \
		CASE(13, between)                                                                  \
		CASE(14, between)                                                                  \
		CASE(15, between)                                                                  \
		CASE(16, between)                                                                  \
		CASE(17, between)                                                                  \
	default: case_none(); output ^= 99;                                                        \
	}                                                                                          \
	output++

NOINLINE void switch_small(unsigned value)
{
	SWITCH(value, );
}

NOINLINE void switch_middle(unsigned value)
{
	SWITCH(value, INSERT(NOPS_50));
}

NOINLINE void switch_large(unsigned value)
{
	SWITCH(value, INSERT(NOPS_4000));
}

/* The cases begin at 100, and the second switch comes after the first. */
NOINLINE void switch_twice(unsigned first, unsigned long second)
{
	SWITCH(first - 100, );
	SWITCH(second, );
}

/* A loop, a return in the middle, a tail call. */
NOINLINE unsigned branches(unsigned n)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < n; i++) {
		if (output == 5)
			return sum;
		sum += output;
	}
	case_1();
	return sum;
}
