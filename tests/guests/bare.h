/* SPDX-License-Identifier: MIT */
/* What the bare guests share: 64-bit ring-0 programs with nothing beneath them. */
#pragma once

#include <stdint.h>

#define NOINLINE __attribute__((noinline, noclone))

/* The page tables that start.S built: identity for the first GiB. */
extern uint64_t top_table[512], upper_table[512];

/* To the first serial port. */
static inline void print(const char *text)
{
	for (; *text; text++)
		__asm__ volatile("outb %0, %1" : : "a"(*text), "Nd"((uint16_t)0x3f8));
}

void guest_main(void);
