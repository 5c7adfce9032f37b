/* SPDX-License-Identifier: MIT */
/*
 * Sequences of events as programs and kernels cause them, and the call trees that they stand for,
 * worked out by hand. A function is a letter, small ones the user's; "a(b())" is a that calls b.
 */
#include "flow_world.h"
#include <string.h>

#define USER	  0
#define KERNEL	  3
#define RING	  (1 << 20)
#define USER_SP	  0x7ffc00010000
#define KERNEL_SP 0xffffc90000004000
#define IRQ_SP	  0xfffffe0000200000
#define CPU0	  100
#define IDLE	  4194304
#define TASK(n)	  (0xffff888000000000 + (n)*0x2000)
#define MM(n)	  (0xffff888010000000 + (n)*0x1000)

static uint64_t now;

/* The address of a function. */
static uint64_t fn(char name)
{
	return (g_ascii_isupper(name) ? 0xffffffff81000000 : 0x401000) + (uint64_t)name * 0x100;
}

static char name_of(uint64_t address)
{
	for (char name = 'A'; name <= 'z'; name++)
		if (g_ascii_isalpha(name) && (fn(name) & VMS_UFTRACE_ADDRESS) == address)
			return name;
	return '?';
}

/* In the middle of a function, where a call returns to. */
static uint64_t in(char name)
{
	return fn(name) + 0x20;
}

static void call(struct world *world, unsigned rank, uint64_t slot, char name)
{
	flow_call(world->flow[0], rank, slot, fn(name), ++now);
}

/* To the middle of some function. */
static void ret(struct world *world, unsigned rank, uint64_t slot)
{
	flow_return(world->flow[0], rank, slot, in('z'), ++now);
}

static void jump(struct world *world, unsigned rank, char name)
{
	flow_jump(world->flow[0], rank, fn(name), ++now);
}

/* Reads a stream as a tree; NULL where there is none. */
static char *tree(struct world *world, uint64_t id)
{
	struct world_stream *stream = world_stream(world, id);
	GString *text = g_string_new("");
	for (guint i = 0; stream && i < stream->records->len; i++) {
		uint64_t word = g_array_index(stream->records, struct vms_uftrace_record, i).word;
		if ((word & 3) == VMS_UFTRACE_ENTRY)
			g_string_append_printf(text, "%c(", name_of(word >> 16));
		else
			g_string_append_c(text, (word & 3) == VMS_UFTRACE_EXIT ? ')' : '!');
	}
	return g_string_free(text, FALSE);
}

static void expect(struct world *world, uint64_t id, const char *expected)
{
	g_autofree char *got = tree(world, id);
	g_assert_cmpstr(got, ==, expected);
}

static void begin(struct world *world, enum vms_agent_by by,
		  const struct vms_agent_function *functions)
{
	const struct vms_agent_calls options = { .by = by, .kernel = 1, .user = 1 };
	now = 1000;
	world_set_up(world, &options, functions, RING);
}

static void check(struct world *world, uint64_t id, const char *expected)
{
	world_finish(world, ++now);
	expect(world, id, expected);
	world_tear_down(world);
}

/* ---- one stack ---------------------------------------------------------------- */

static void test_nested(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_VCPU, NULL);
	call(&world, KERNEL, KERNEL_SP, 'A');
	call(&world, KERNEL, KERNEL_SP - 0x10, 'B');
	ret(&world, KERNEL, KERNEL_SP - 0x10);
	call(&world, KERNEL, KERNEL_SP - 0x10, 'C');
	call(&world, KERNEL, KERNEL_SP - 0x20, 'D');
	ret(&world, KERNEL, KERNEL_SP - 0x20);
	ret(&world, KERNEL, KERNEL_SP - 0x10);
	ret(&world, KERNEL, KERNEL_SP);
	call(&world, KERNEL, KERNEL_SP, 'E'); /* open at the end */
	check(&world, CPU0, "A(B()C(D()))E()");
}

static void test_recursion(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_VCPU, NULL);
	for (unsigned i = 0; i < 3000; i++)
		call(&world, USER, USER_SP - i * 0x20, 'f');
	for (unsigned i = 3000; i-- > 0;)
		ret(&world, USER, USER_SP - i * 0x20);
	world_finish(&world, ++now);
	g_assert_cmpuint(world_stream(&world, CPU0)->records->len, ==, 6000);
	world_tear_down(&world);
}

static void test_longjmp(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_VCPU, NULL);
	call(&world, USER, USER_SP, 'm');
	call(&world, USER, USER_SP - 0x10, 'a');
	call(&world, USER, USER_SP - 0x20, 'b');
	call(&world, USER, USER_SP - 0x30, 'l'); /* goes back into m, which calls c */
	call(&world, USER, USER_SP - 0x10, 'c');
	call(&world, USER, USER_SP - 0x20, 'd');
	ret(&world, USER, USER_SP); /* m returns out of d */
	check(&world, CPU0, "m(a(b(l()))c(d()))");
}

static void test_tail_calls(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_VCPU, NULL);
	call(&world, USER, USER_SP, 'm');
	call(&world, USER, USER_SP - 0x10, 'a');
	jump(&world, USER, 'b');
	jump(&world, USER, 'c');
	jump(&world, USER, 'c'); /* a loop */
	call(&world, USER, USER_SP - 0x20, 'd');
	ret(&world, USER, USER_SP - 0x20);
	ret(&world, USER, USER_SP - 0x10);
	ret(&world, USER, USER_SP);
	check(&world, CPU0, "m(a()b()c(d()))");
}

static const struct vms_agent_function thunks[] = {
	{ 0xffffffff81000000 + 'F' * 0x100, 0 },
	{ 0xffffffff81000000 + 'R' * 0x100, VMS_AGENT_FUNCTION_RETURN },
	{ 0xffffffff81000000 + 'T' * 0x100, VMS_AGENT_FUNCTION_TRANSPARENT },
	{ 0, 0 },
};

static void test_retpoline(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_VCPU, thunks);
	call(&world, KERNEL, KERNEL_SP, 'A');
	call(&world, KERNEL, KERNEL_SP - 0x10, 'T'); /* which pushes F, and returns to it */
	flow_return(world.flow[0], KERNEL, KERNEL_SP - 0x18, fn('F'), ++now);
	call(&world, KERNEL, KERNEL_SP - 0x20, 'B');
	ret(&world, KERNEL, KERNEL_SP - 0x20);
	jump(&world, KERNEL, 'R');
	ret(&world, KERNEL, KERNEL_SP - 0x10);
	call(&world, KERNEL, KERNEL_SP - 0x10, 'C');
	jump(&world, KERNEL, 'T'); /* C ends with an indirect jump to F */
	flow_return(world.flow[0], KERNEL, KERNEL_SP - 0x18, fn('F'), ++now);
	ret(&world, KERNEL, KERNEL_SP - 0x10);
	call(&world, KERNEL, KERNEL_SP - 0x10, 'T'); /* patched to a jump */
	jump(&world, KERNEL, 'F');
	ret(&world, KERNEL, KERNEL_SP - 0x10);
	check(&world, CPU0, "A(F(B())C()F()F())");
}

static void test_unmatched_returns(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_VCPU, thunks);
	ret(&world, KERNEL, KERNEL_SP); /* of calls before the trace */
	ret(&world, KERNEL, KERNEL_SP + 0x100);
	call(&world, KERNEL, KERNEL_SP, 'A');
	ret(&world, KERNEL, KERNEL_SP - 0x100);
	call(&world, KERNEL, KERNEL_SP - 0x10, 'B');
	/* push and return: F in B's place */
	flow_return(world.flow[0], KERNEL, KERNEL_SP - 0x30, fn('F'), ++now);
	ret(&world, KERNEL, KERNEL_SP + 0x100); /* beyond all */
	call(&world, KERNEL, KERNEL_SP + 0x200, 'C');
	check(&world, CPU0, "A(B()F())C()");
}

/* ---- tasks -------------------------------------------------------------------- */

static void switch_to(struct world *world, unsigned vcpu, unsigned n)
{
	struct flow_task task = {
		.va = n ? TASK(n) : TASK(0x1000 + vcpu),
		.mm = n ? MM(n) : 0,
		.tid = n ? 100 + n : 0,
		.pid = n ? 100 + n : 0,
	};
	g_snprintf(task.name, sizeof(task.name), n ? "task%u" : "swapper", n);
	flow_switch(world->flow[vcpu], &task, ++now);
}

static uint64_t stack_of(unsigned n)
{
	return KERNEL_SP + n * 0x10000;
}

/* As on x86: __switch_to_asm loads the stack pointer and jumps to __switch_to. */
static void schedule(struct world *world, unsigned vcpu, unsigned from, unsigned to)
{
	flow_call(world->flow[vcpu], KERNEL, stack_of(from) - 0x100, fn('S'), ++now);
	flow_stack_loaded(world->flow[vcpu], KERNEL);
	switch_to(world, vcpu, to);
	flow_jump(world->flow[vcpu], KERNEL, fn('W'), ++now);
	flow_return(world->flow[vcpu], KERNEL, stack_of(to) - 0x100, in('A'), ++now);
}

static void run_two_tasks(struct world *world)
{
	switch_to(world, 0, 1);
	flow_call(world->flow[0], KERNEL, stack_of(1), fn('A'), ++now);
	schedule(world, 0, 1, 2);
	flow_call(world->flow[0], KERNEL, stack_of(2), fn('B'), ++now);
	schedule(world, 0, 2, 1);
	flow_call(world->flow[0], KERNEL, stack_of(1) - 0x10, fn('C'), ++now);
	ret(world, KERNEL, stack_of(1) - 0x10);
	ret(world, KERNEL, stack_of(1));
	schedule(world, 0, 1, 2);
	ret(world, KERNEL, stack_of(2));
}

static void test_switch_by_task(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_TASK, NULL);
	run_two_tasks(&world);
	world_finish(&world, ++now);
	/* Task 1 waits in its second S at the end. */
	expect(&world, 101, "A(S()W()C())S()");
	expect(&world, 102, "B(S()W())");
	g_assert_cmpstr(world_stream(&world, 101)->about.name, ==, "task1");
	world_tear_down(&world);
}

static void test_switch_by_vcpu(void)
{
	struct world world;
	begin(&world, VMS_AGENT_BY_VCPU, NULL);
	run_two_tasks(&world);
	check(&world, CPU0, "A(S())B(S())A(S()W()C())S()B(S()W())");
}

static void test_migration(void)
{
	struct world world;
	g_autoptr(GString) expected = g_string_new("");
	begin(&world, VMS_AGENT_BY_TASK, NULL);
	for (unsigned i = 0; i < 100; i++) {
		struct flow *flow = world.flow[i % 3];
		switch_to(&world, i % 3, 1);
		flow_return(flow, KERNEL, stack_of(1) - 0x10, in('A'), ++now);
		flow_return(flow, KERNEL, stack_of(1), in('Z'), ++now);
		flow_call(flow, KERNEL, stack_of(1), fn('A'), ++now);
		flow_call(flow, KERNEL, stack_of(1) - 0x10, fn('S'), ++now);
		switch_to(&world, i % 3, 0);
		g_string_append(expected, "A(S())");
	}
	check(&world, 101, expected->str);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/flow/nested", test_nested);
	g_test_add_func("/flow/recursion", test_recursion);
	g_test_add_func("/flow/longjmp", test_longjmp);
	g_test_add_func("/flow/tail-calls", test_tail_calls);
	g_test_add_func("/flow/retpoline", test_retpoline);
	g_test_add_func("/flow/unmatched-returns", test_unmatched_returns);
	g_test_add_func("/flow/switch-by-task", test_switch_by_task);
	g_test_add_func("/flow/switch-by-vcpu", test_switch_by_vcpu);
	g_test_add_func("/flow/migration", test_migration);
	return g_test_run();
}
