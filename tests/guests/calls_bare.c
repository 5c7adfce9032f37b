/* SPDX-License-Identifier: MIT */
/*
 * A bare guest whose calls are known: every function counts how often it was entered, and the
 * counts are written to the serial port, as truth for call traces. The scenes are played three
 * times. Between them the guest waits in the middle of a deep stack, where it was built with WAITS
 * for a byte from its serial port. Then it turns itself off.
 */
#if defined(__x86_64__)
#include "calls_x86_64.h"
#else
#include "calls_aarch64.h"
#endif

#define DEEP	   3000 /* deeper than a record's 10 bits of depth */
#define WAIT_DEPTH 200

#define COUNTER(name) volatile uint64_t count_##name;
CALLS(COUNTER)

#define ENTERED(name) (count_##name++)

/* ---- calls ---------------------------------------------------------------- */

#define AT_THE_BOTTOM() call_machine(2) /* an exception */
#include "plain_calls_code.h"

NOINLINE static void call_pointers(void)
{
	void (*in_register)(void) = pointer;

	__asm__ volatile("" : "+r"(in_register));
	in_register();
	call_in_memory(&pointer);
	STAY();
}

/* ---- stacks that are left and come back to ------------------------------------- */

static void *mark[5];

NOINLINE void jump_back(void)
{
	ENTERED(jump_back);
	__builtin_longjmp(mark, 1);
}

NOINLINE void climb(unsigned depth)
{
	ENTERED(climb);
	if (depth > 0)
		climb(depth - 1);
	else if (mark[1])
		jump_back();
	STAY();
}

NOINLINE void come_back(void)
{
	ENTERED(come_back);
	if (__builtin_setjmp(mark) == 0)
		climb(50);
	leaf();
	STAY();
}

#define SWITCHES 50

static _Alignas(16) char stacks[2][16384];
static void *waiting[2], *first_stack;
static volatile unsigned running;

NOINLINE void pass_on(void)
{
	unsigned me = running;

	ENTERED(pass_on);
	running = !me;
	switch_stack(&waiting[me], waiting[!me]);
	STAY();
}

/* Passes on from every depth. */
NOINLINE void step(unsigned depth)
{
	ENTERED(step);
	leaf();
	pass_on();
	if (depth > 0)
		step(depth - 1);
	STAY();
}

NOINLINE void coroutine(void)
{
	void *nowhere;

	ENTERED(coroutine);
	step(SWITCHES);
	pass_on();
	switch_stack(&nowhere, first_stack);
	__builtin_unreachable();
}

NOINLINE static void play_coroutines(void)
{
	for (int i = 0; i < 2; i++)
		waiting[i] = new_stack(stacks[i] + sizeof(stacks[i]), coroutine);
	running = 0;
	switch_stack(&first_stack, waiting[0]);
	STAY();
}

/* ---- interrupts and exceptions -------------------------------------------- */

NOINLINE void below_handler(void)
{
	ENTERED(below_handler);
}

void handle_call(struct frame *frame)
{
	ENTERED(handle_call);
	below_handler();
	if (*frame_value(frame) > 0)
		call_machine(*frame_value(frame) - 1);
	STAY();
}

void handle_undefined(struct frame *frame)
{
	ENTERED(handle_undefined);
	below_handler();
	frame->pc += UNDEFINED_SIZE;
}

void handle_fault(struct frame *frame)
{
	static uint64_t value;

	ENTERED(handle_fault);
	below_handler();
	*frame_value(frame) = (uintptr_t)&value;
}

void handle_tick(struct frame *frame)
{
	(void)frame;
	ENTERED(handle_tick);
	below_handler();
	next_tick();
}

/* Half of the ticks find calls going on, the other half a processor that is halted. */
NOINLINE void await_ticks(unsigned n)
{
	ENTERED(await_ticks);
	uint64_t busy = count_handle_tick + n / 2, idle = busy + n / 2;

	start_ticks();
	while (count_handle_tick < busy) {
		outer();
		for (volatile unsigned i = 0; i < 1000; i++)
			;
	}
	while (count_handle_tick < idle)
		halt();
	stop_ticks();
}

/* ---- the play ------------------------------------------------------------- */

NOINLINE void scenes(void)
{
	ENTERED(scenes);
	for (unsigned i = 0; i < 100; i++) {
		outer();
		tail_pointer(tail_begin(i));
		call_pointers();
	}
	recurse(DEEP);
	recurse(DEEP);
	for (unsigned i = 0; i < 20; i++) {
		come_back();
		call_machine(3);
		undefined();
		fault();
	}
	play_coroutines();
	await_ticks(20);
	STAY();
}

NOINLINE void await_word(void)
{
	ENTERED(await_word);
#ifdef WAITS
	while (!has_word())
		;
#endif
}

NOINLINE void deep_wait(unsigned depth)
{
	ENTERED(deep_wait);
	if (depth > 0)
		deep_wait(depth - 1);
	else
		await_word();
	STAY();
}

static void print(const char *text)
{
	while (*text)
		put(*text++);
}

static void print_number(uint64_t number)
{
	if (number >= 10)
		print_number(number / 10);
	put((char)('0' + number % 10));
}

NOINLINE static void print_counts(unsigned part)
{
#define PRINT(name)                                                                                \
	print("COUNT ");                                                                           \
	print_number(part);                                                                        \
	print(" " #name " ");                                                                      \
	print_number(count_##name);                                                                \
	print("\n");
	CALLS(PRINT)
}

void guest_main(void)
{
	set_vectors();
	scenes();
	print_counts(1);
	print("READY\n");
	deep_wait(WAIT_DEPTH);
	scenes();
	print_counts(2);
	print("AGAIN\n");
	deep_wait(WAIT_DEPTH);
	scenes();
	print_counts(3);
	print("DONE\n");
	power_off();
	for (;;)
		halt();
}
