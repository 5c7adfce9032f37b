/* SPDX-License-Identifier: MIT */
/*
 * What calls_bare.c needs of an architecture (calls_x86_64.h, calls_aarch64.h and the .S files of
 * the same names), and the functions that it counts.
 */
#pragma once

#include "plain_calls.h"
#include <stdint.h>

/* Every function that a trace must show. Each keeps count_NAME, the times that it was entered. */
#define CALLS(X)                                                                                   \
	PLAIN_CALLS(X)                                                                             \
	X(climb)                                                                                   \
	X(jump_back)                                                                               \
	X(come_back)                                                                               \
	X(coroutine)                                                                               \
	X(step)                                                                                    \
	X(pass_on)                                                                                 \
	X(handle_call)                                                                             \
	X(handle_undefined)                                                                        \
	X(handle_fault)                                                                            \
	X(handle_tick)                                                                             \
	X(below_handler)                                                                           \
	X(await_ticks)                                                                             \
	X(scenes)                                                                                  \
	X(deep_wait)                                                                               \
	X(await_word)                                                                              \
	/* In assembly: */                                                                         \
	X(switch_stack)                                                                            \
	X(vector_call)                                                                             \
	X(vector_undefined)                                                                        \
	X(vector_fault)                                                                            \
	X(vector_tick)

/* Saves the stack pointer in `from`, goes on with `to`. */
void switch_stack(void **from, void *to);

struct frame; /* registers of who was interrupted */
void handle_call(struct frame *frame);
void handle_undefined(struct frame *frame);
void handle_fault(struct frame *frame);
void handle_tick(struct frame *frame);
