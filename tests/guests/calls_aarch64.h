/* SPDX-License-Identifier: MIT */
/* What calls_bare.c needs of aarch64: QEMU's virt machine with a GICv2 and a PL011. */
#pragma once

#include "calls_bare.h"

#define TICK_HZ 1000

struct frame {
	uint64_t x[20]; /* x0 to x18, x30 */
	uint64_t pc, pstate;
};

static uint64_t *frame_value(struct frame *frame)
{
	return &frame->x[0];
}

static volatile uint32_t *device(uint64_t address)
{
	return (volatile uint32_t *)address;
}

static inline void put(char c)
{
	*device(0x09000000) = (uint8_t)c;
}

static inline int has_word(void)
{
	if (*device(0x09000018) & 1 << 4) /* nothing received */
		return 0;
	(void)*device(0x09000000);
	return 1;
}

/* A processor of this kind has no such calls. */
static inline void call_in_memory(void (*volatile *pointer)(void))
{
	(*pointer)();
}

/* Into the handler handle_call, with a value. */
static inline void call_machine(uint64_t value)
{
	register uint64_t x0 __asm__("x0") = value;

	__asm__ volatile("svc #0" : "+r"(x0) : : "memory", "cc");
}

static inline void undefined(void)
{
	__asm__ volatile("udf #0" : : : "memory");
}
#define UNDEFINED_SIZE 4

/* Reads from an address that is not aligned; the handler puts a better one in its place. */
static inline uint64_t fault(void)
{
	register uint64_t x0 __asm__("x0") = 0x40000001;

	__asm__ volatile("ldr x0, [x0]" : "+r"(x0) : : "memory");
	return x0;
}

extern char vectors[];

static inline void set_vectors(void)
{
	uint64_t control;

	__asm__ volatile("msr vbar_el1, %0" : : "r"(vectors));
	__asm__ volatile("mrs %0, sctlr_el1" : "=r"(control));
	__asm__ volatile("msr sctlr_el1, %0\n\tisb" : : "r"(control | 2)); /* alignment faults */
	*device(0x08000100) = 1u << 27; /* the virtual timer's interrupt */
	*device(0x08000000) = 1;
	*device(0x08010004) = 0xff;
	*device(0x08010000) = 1;
}

static inline void set_timer(void)
{
	uint64_t hertz;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
	__asm__ volatile("msr cntv_tval_el0, %0" : : "r"(hertz / TICK_HZ));
}

static inline void start_ticks(void)
{
	set_timer();
	__asm__ volatile("msr cntv_ctl_el0, %0\n\tmsr daifclr, #2" : : "r"(1UL) : "memory");
}

static inline void next_tick(void)
{
	uint32_t interrupt = *device(0x0801000c);

	set_timer();
	*device(0x08010010) = interrupt;
}

static inline void stop_ticks(void)
{
	__asm__ volatile("msr daifset, #2\n\tmsr cntv_ctl_el0, xzr" : : : "memory");
}

/* Until the next interrupt. */
static inline void halt(void)
{
	__asm__ volatile("wfi" : : : "memory");
}

/* What switch_stack() takes for a stack on which nothing has run; `entry` never returns. */
static inline void *new_stack(void *top, void (*entry)(void))
{
	uint64_t *sp = (uint64_t *)top - 12;

	sp[11] = (uintptr_t)entry;
	return sp;
}

static inline void power_off(void)
{
	register uint64_t x0 __asm__("x0") = 0x84000008; /* PSCI SYSTEM_OFF */

	__asm__ volatile("hvc #0" : "+r"(x0) : : "memory");
}
