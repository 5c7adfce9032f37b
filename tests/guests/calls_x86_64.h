/* SPDX-License-Identifier: MIT */
/* What calls_bare.c needs of x86-64: a PC's interrupt controller, timer, serial port. */
#pragma once

#include "calls_bare.h"

#define TICK_HZ 1000

struct frame {
	uint64_t r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax; /* as calls_x86_64.S pushes them */
	uint64_t pc;
};

static uint64_t *frame_value(struct frame *frame)
{
	return &frame->rax;
}

static inline void out(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t in(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline void put(char c)
{
	out(0x3f8, (uint8_t)c);
}

static inline int has_word(void)
{
	if (!(in(0x3fd) & 1))
		return 0;
	in(0x3f8);
	return 1;
}

/* Calls what the pointer points to, without loading it into a register. */
static inline void call_in_memory(void (*volatile *pointer)(void))
{
	__asm__ volatile("call *%0"
			 :
			 : "m"(*pointer)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
			   "cc");
}

/* Into the handler handle_call, with a value. */
static inline void call_machine(uint64_t value)
{
	__asm__ volatile("int $0x80" : "+a"(value) : : "memory", "cc");
}

static inline void undefined(void)
{
	__asm__ volatile("ud2" : : : "memory");
}
#define UNDEFINED_SIZE 2

/* Reads from an address where nothing is; the handler puts a better one in its place. */
static inline uint64_t fault(void)
{
	uint64_t value = 1ULL << 40;

	__asm__ volatile("movq (%0), %0" : "+a"(value) : : "memory");
	return value;
}

struct gate {
	uint16_t low, segment, type, middle;
	uint32_t high, reserved;
};
static struct gate gates[256];

void vector_call(void), vector_undefined(void), vector_fault(void), vector_tick(void);

static void set_gate(int number, void (*vector)(void))
{
	uint64_t va = (uintptr_t)vector;

	gates[number] = (struct gate) { (uint16_t)va,	      8, 0x8e00, (uint16_t)(va >> 16),
					(uint32_t)(va >> 32), 0 };
}

static inline void set_vectors(void)
{
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) table = { sizeof(gates) - 1, (uintptr_t)gates };

	set_gate(6, vector_undefined);
	set_gate(14, vector_fault);
	set_gate(0x20, vector_tick);
	set_gate(0x80, vector_call);
	__asm__ volatile("lidt %0" : : "m"(table));
	/* The interrupt controllers: vectors from 0x20 on, the timer alone. */
	static const uint8_t first[] = { 0x11, 0x20, 4, 1, 0xfe },
			     second[] = { 0x11, 0x28, 2, 1, 0xff };
	for (unsigned i = 0; i < sizeof(first); i++) {
		out(i == 0 ? 0x20 : 0x21, first[i]);
		out(i == 0 ? 0xa0 : 0xa1, second[i]);
	}
}

static inline void start_ticks(void)
{
	out(0x43, 0x34);
	out(0x40, (uint8_t)(1193182 / TICK_HZ));
	out(0x40, (uint8_t)(1193182 / TICK_HZ >> 8));
	__asm__ volatile("sti" : : : "memory");
}

static inline void next_tick(void)
{
	out(0x20, 0x20);
}

static inline void stop_ticks(void)
{
	__asm__ volatile("cli" : : : "memory");
}

/* Until the next interrupt. */
static inline void halt(void)
{
	__asm__ volatile("hlt" : : : "memory");
}

/* What switch_stack() takes for a stack on which nothing has run; `entry` never returns. */
static inline void *new_stack(void *top, void (*entry)(void))
{
	uint64_t *sp = (uint64_t *)top - 8;

	sp[6] = (uintptr_t)entry;
	return sp;
}

static inline void power_off(void)
{
	__asm__ volatile("outw %0, %1" : : "a"((uint16_t)0x2000), "Nd"((uint16_t)0x604));
}
