/* SPDX-License-Identifier: MIT */
/* The calls that calls_bare.c and calls_user.c have in common: their list. */
#pragma once

#define NOINLINE __attribute__((noinline, noclone))
/* What follows a call, so that it is not the function's last. */
#define STAY() __asm__ volatile("" : : : "memory")

#define PLAIN_CALLS(X)                                                                             \
	X(leaf)                                                                                    \
	X(middle)                                                                                  \
	X(outer)                                                                                   \
	X(recurse)                                                                                 \
	X(tail_begin)                                                                              \
	X(tail_next)                                                                               \
	X(tail_end)                                                                                \
	X(tail_pointer)                                                                            \
	X(pointed)
