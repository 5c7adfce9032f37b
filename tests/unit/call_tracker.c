/* SPDX-License-Identifier: MIT */
/* Calls, jumps, returns and interrupts as they happen, and the trees they stand for. */
#include "call_tracker_world.h"

#define IRQ_SP	 0xffffc90000204000
#define OTHER_SP 0xffffc90000304000

/* ---- one stack ---------------------------------------------------------------- */

static void test_nested(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	ret(KERNEL, KERNEL_SP - 0x10);
	call(KERNEL, KERNEL_SP - 0x10, 'C');
	call(KERNEL, KERNEL_SP - 0x20, 'D');
	ret(KERNEL, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP - 0x10);
	ret(KERNEL, KERNEL_SP);
	call(KERNEL, KERNEL_SP, 'E'); /* open at the end */
	end_with(CPU(0), "A(B()C(D()))E()");
}

static void test_recursion(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	for (unsigned i = 0; i < 3000; i++)
		call(USER, USER_SP - i * 0x20, 'f');
	for (unsigned i = 3000; i-- > 0;)
		ret(USER, USER_SP - i * 0x20);
	end();
	g_assert_cmpuint(world_stream(CPU(0))->records->len, ==, 6000);
	world_tear_down();
}

/* The ring takes a part of it; what is not followed is counted. */
static void test_too_deep(void)
{
	const unsigned limit = 1 << 20, n = limit + 1000;
	begin(VMS_AGENT_BY_VCPU, NULL);
	for (unsigned i = 0; i < n; i++)
		call(USER, USER_SP - i * 0x10ULL, 'f');
	uint64_t lost = world.shared[0].lost;
	for (unsigned i = n; i-- > limit;) {
		ret(USER, USER_SP - i * 0x10ULL);
		g_assert_cmpuint(world.shared[0].lost, ==, lost);
	}
	ret(USER, USER_SP - 0x10);
	g_assert_cmpuint(world.shared[0].lost, >, lost);
	end();
	world_tear_down();
}

static void test_longjmp(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'a');
	call(USER, USER_SP - 0x20, 'b');
	call(USER, USER_SP - 0x30, 'l'); /* goes back into m, which calls c */
	call(USER, USER_SP - 0x10, 'c');
	call(USER, USER_SP - 0x20, 'd');
	ret(USER, USER_SP); /* m returns out of d */
	end_with(CPU(0), "m(a(b(l()))c(d()))");
}

static void test_tail_calls(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	jump(USER, 'x'); /* out of what is not known; and then it does not return */
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'a');
	jump(USER, 'b');
	jump(USER, 'c');
	jump(USER, 'c'); /* a loop */
	call(USER, USER_SP - 0x20, 'd');
	ret(USER, USER_SP - 0x20);
	ret(USER, USER_SP - 0x10);
	ret(USER, USER_SP);
	end_with(CPU(0), "x(m(a()b()c(d())))");
}

/* A million of them take no room. */
static void test_tail_call_chain(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(USER, USER_SP, 'm');
	for (unsigned i = 0; i < 10000; i++)
		jump(USER, i % 2 ? 'a' : 'b');
	ret(USER, USER_SP);
	end();
	const GArray *records = world_stream(CPU(0))->records;
	g_assert_cmpuint(records->len, ==, 2 * 10001);
	for (guint i = 0; i < records->len; i++) {
		uint64_t word = g_array_index(records, struct vms_uftrace_record, i).word;
		g_assert_cmpuint(word >> 6 & 1023, ==, 0);
	}
	world_tear_down();
}

#define KERNEL_FN(name) (0xffffffff81000000 + (name)*0x100)

static const struct vms_agent_function functions[] = {
	{ KERNEL_FN('E'), VMS_AGENT_FUNCTION_ENTRY },
	{ KERNEL_FN('F'), 0 },
	{ KERNEL_FN('R'), VMS_AGENT_FUNCTION_RETURN },
	{ KERNEL_FN('T'), VMS_AGENT_FUNCTION_TRANSPARENT },
	{ 0, 0 },
};

static void test_table(void)
{
	struct vms_agent_function many[1001] = { 0 };
	for (unsigned i = 0; i < 1000; i++)
		many[i] = (struct vms_agent_function) { 0x1000 + i * 0x40, i % 8 };
	const struct vms_agent_calls options = { .kernel = 1 };
	begin_with(&options, many);
	for (unsigned i = 0; i < 1000; i++) {
		g_assert_cmpint(call_trackers_find_function(world.trackers, 0x1000 + i * 0x40), ==,
				i % 8);
		g_assert_cmpint(call_trackers_find_function(world.trackers, 0x1001 + i * 0x40), ==,
				-1);
	}
	world_update(&options, functions);
	g_assert_cmpint(call_trackers_find_function(world.trackers, 0x1000), ==, -1);
	g_assert_cmpint(call_trackers_find_function(world.trackers, fn('F')), ==, 0);
	world_update(&options, NULL);
	g_assert_cmpint(call_trackers_find_function(world.trackers, fn('F')), ==, -1);
	world_tear_down();
}

static void test_retpoline(void)
{
	begin(VMS_AGENT_BY_VCPU, functions);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x10, 'T'); /* which pushes F, and returns to it */
	ret_to(KERNEL, KERNEL_SP - 0x18, 'F');
	call(KERNEL, KERNEL_SP - 0x20, 'B');
	ret(KERNEL, KERNEL_SP - 0x20);
	jump(KERNEL, 'R'); /* how F returns */
	ret(KERNEL, KERNEL_SP - 0x10);
	call(KERNEL, KERNEL_SP - 0x10, 'C');
	jump(KERNEL, 'T'); /* C ends with an indirect jump to F */
	ret_to(KERNEL, KERNEL_SP - 0x18, 'F');
	ret(KERNEL, KERNEL_SP - 0x10);
	call(KERNEL, KERNEL_SP - 0x10, 'T'); /* patched to a jump */
	jump(KERNEL, 'F');
	ret(KERNEL, KERNEL_SP - 0x10);
	call(KERNEL, KERNEL_SP - 0x10, 'T'); /* to what no table knows */
	ret_to(KERNEL, KERNEL_SP - 0x18, 'G');
	ret(KERNEL, KERNEL_SP - 0x10);
	end_with(CPU(0), "A(F(B())C()F()F()G())");
}

static void test_unmatched_returns(void)
{
	begin(VMS_AGENT_BY_VCPU, functions);
	ret(KERNEL, KERNEL_SP); /* of calls before the trace */
	ret(KERNEL, KERNEL_SP + 0x100);
	call(KERNEL, KERNEL_SP, 'A');
	ret(KERNEL, KERNEL_SP - 0x100);
	ret_to(KERNEL, KERNEL_SP - 0x100, 'E'); /* no way to call it */
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	ret_to(KERNEL, KERNEL_SP - 0x30, 'F'); /* push and return: F in B's place */
	ret(KERNEL, KERNEL_SP + 0x100);	       /* beyond all */
	call(KERNEL, KERNEL_SP + 0x200, 'C');
	call(KERNEL, UINT64_MAX, 'D');
	ret(KERNEL, UINT64_MAX);
	ret(KERNEL, UINT64_MAX);
	end_with(CPU(0), "A(B()F())C()D()");
}

/* What is jumped to on a stack without calls returns sometime. */
static void test_jump_from_nowhere(void)
{
	begin(VMS_AGENT_BY_VCPU, functions);
	jump(KERNEL, 'A');
	jump(KERNEL, 'B');
	jump(KERNEL, 'R');
	call(KERNEL, KERNEL_SP - 0x40, 'C');
	ret(KERNEL, KERNEL_SP - 0x40);
	ret(KERNEL, KERNEL_SP - 0x20); /* B's */
	jump(KERNEL, 'T');
	ret_to(KERNEL, KERNEL_SP - 0x20, 'G');
	call(KERNEL, KERNEL_SP - 0x40, 'C');
	ret_to(KERNEL, KERNEL_SP, 'F'); /* G's */
	call(KERNEL, KERNEL_SP, 'D');
	ret(KERNEL, KERNEL_SP + 8); /* F's */
	end_with(CPU(0), "A()B(C())G(C())F(D())");
}

/* error_entry of Linux returns from another place than where it was called to. */
static void test_moved_return_address(void)
{
	begin(VMS_AGENT_BY_VCPU, functions);
	call(USER, USER_SP, 'm');
	enter(ENTRY_INTERRUPT, 'F', in('m'), USER_SP - 0x20);
	call(KERNEL, IRQ_SP, 'G');
	track_return(world.tracker[0], KERNEL, IRQ_SP - 0x78, in('F'), ++now);
	call(KERNEL, IRQ_SP, 'G'); /* on the next stack, when it is loaded */
	load_stack(KERNEL);
	track_return(world.tracker[0], KERNEL, KERNEL_SP - 0x78, in('F'), ++now);
	call(KERNEL, KERNEL_SP - 0x70, 'A');
	ret(KERNEL, KERNEL_SP - 0x70);
	leave(in('m'), USER_SP - 0x20);
	end_with(CPU(0), "m(F(G()G()A()))");
}

/* Time that goes back is held. */
static void test_time(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	now -= 500;
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	ret(KERNEL, KERNEL_SP - 0x10);
	end_with(CPU(0), "A(B())");
}

/* ---- interrupts ----------------------------------------------------------------- */

static void test_irq_stack(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	interrupt(KERNEL_SP - 0x80, 'I', KERNEL_SP - 0x50);
	call(KERNEL, KERNEL_SP - 0x100, 'C');
	load_stack(KERNEL);
	call(KERNEL, IRQ_SP, 'H');
	call(KERNEL, IRQ_SP - 0x20, 'J');
	/* Another one meanwhile, with an error code. */
	interrupt(IRQ_SP - 0x70, 'K', IRQ_SP - 0x40);
	call(KERNEL, IRQ_SP - 0x100, 'L');
	ret(KERNEL, IRQ_SP - 0x100);
	back(IRQ_SP - 0x68, IRQ_SP - 0x40);
	ret(KERNEL, IRQ_SP - 0x20);
	ret(KERNEL, IRQ_SP);
	ret(KERNEL, KERNEL_SP - 0x100);
	back(KERNEL_SP - 0x80, KERNEL_SP - 0x50);
	ret(KERNEL, KERNEL_SP - 0x10);
	call(KERNEL, KERNEL_SP - 0x10, 'D');
	end_with(CPU(0), "A(B(I(C(H(J(K(L()))))))D())");
}

/* The handler's own stack is left without a return from all its calls. */
static void test_irq_stack_cut(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	for (unsigned i = 0; i < 3; i++) {
		call(KERNEL, KERNEL_SP, 'A');
		interrupt(KERNEL_SP - 0x80, 'I', KERNEL_SP - 0x50);
		load_stack(KERNEL);
		call(KERNEL, IRQ_SP, 'H');
		call(KERNEL, IRQ_SP - 0x20, 'J');
		load_stack(KERNEL);
		back(KERNEL_SP - 0x80, KERNEL_SP - 0x50);
		ret(KERNEL, KERNEL_SP);
	}
	end_with(CPU(0), "A(I(H(J())))A(I(H(J())))A(I(H(J())))");
}

/* As on aarch64, where neither calls nor interrupts push. */
static void test_interrupted_leaf(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x20, 'B');
	interrupt(KERNEL_SP - 0x20, 'I', KERNEL_SP - 0x20);
	call(KERNEL, KERNEL_SP - 0x180, 'C');
	ret(KERNEL, KERNEL_SP - 0x180);
	back(KERNEL_SP - 0x20, KERNEL_SP - 0x20);
	interrupt(KERNEL_SP - 0x20, 'I', KERNEL_SP - 0x20);
	back(KERNEL_SP - 0x20, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP);
	end_with(CPU(0), "A(B(I(C())I()))");
}

/* The entry of an interrupt lies below what it pushes; both it and a leaf's call are seen. */
static void test_interrupted_leaf_below(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	interrupt(KERNEL_SP - 0x150, 'I', KERNEL_SP);
	call(KERNEL, KERNEL_SP - 0x150, 'C'); /* with nothing between: the entry has ended */
	interrupt(KERNEL_SP - 0x2a0, 'K', KERNEL_SP - 0x150);
	back(KERNEL_SP - 0x150, KERNEL_SP - 0x150); /* C is still there */
	call(KERNEL, KERNEL_SP - 0x180, 'D');
	ret(KERNEL, KERNEL_SP - 0x180);
	ret(KERNEL, KERNEL_SP - 0x150);
	back(KERNEL_SP, KERNEL_SP);
	ret(KERNEL, KERNEL_SP);
	end_with(CPU(0), "A(I()C(K()D()))");
}

/* What jumps to its handler: as it is found from the processor's vectors. */
static void test_vector(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	for (unsigned i = 0; i < 2; i++) {
		call(KERNEL, KERNEL_SP, 'A');
		track_entry(world.tracker[0], ENTRY_INTERRUPT, KERNEL, KERNEL_SP, 0, KERNEL,
			    in('A'), KERNEL_SP, ++now);
		if (i == 0)
			jump(KERNEL, 'V');
		call(KERNEL, KERNEL_SP - 0x40, 'H');
		ret(KERNEL, KERNEL_SP - 0x40);
		back(KERNEL_SP, KERNEL_SP);
		call(KERNEL, KERNEL_SP - 0x20, 'B');
		ret(KERNEL, KERNEL_SP - 0x20);
		ret(KERNEL, KERNEL_SP);
	}
	end_with(CPU(0), "A(V(H())B())A(H()B())");
}

/* One for which the processor itself changes stacks, as for an NMI; tail calls of its entry. */
static void test_own_stack(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	interrupt(IRQ_SP - 0x28, 'N', KERNEL_SP - 0x50);
	call(KERNEL, IRQ_SP - 0x100, 'C');
	ret(KERNEL, IRQ_SP - 0x100);
	jump(KERNEL, 'X');
	back(IRQ_SP - 0x28, KERNEL_SP - 0x50);
	call(KERNEL, KERNEL_SP - 0x60, 'B');
	ret(KERNEL, KERNEL_SP - 0x60);
	ret(KERNEL, KERNEL_SP);
	end_with(CPU(0), "A(N(C())X()B())");
}

/* sync_core(): the kernel returns from an interrupt that there was not. */
static void test_iret_to_itself(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x20, 'B');
	back(KERNEL_SP - 0x60, KERNEL_SP - 0x38);
	ret(KERNEL, KERNEL_SP - 0x20);
	end_with(CPU(0), "A(B())");
}

static void test_user_interrupted(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'f');
	enter(ENTRY_INTERRUPT, 'I', in('f'), USER_SP - 0x30);
	call(KERNEL, KERNEL_SP, 'A');
	load_stack(KERNEL);
	call(KERNEL, IRQ_SP, 'H');
	ret(KERNEL, IRQ_SP);
	ret(KERNEL, KERNEL_SP);
	leave(in('f'), USER_SP - 0x30);
	enter(ENTRY_SYSCALL, 'S', in('f'), USER_SP - 0x30);
	call(KERNEL, KERNEL_SP, 'B'); /* which does not return */
	leave(in('f'), USER_SP - 0x30);
	ret(USER, USER_SP - 0x10);
	enter(ENTRY_SYSCALL, 'S', in('m'), USER_SP - 0x20);
	call(KERNEL, KERNEL_SP, 'C');
	call(USER, USER_SP - 0x10, 'g'); /* left without a word */
	end_with(CPU(0), "m(f(I(A(H()))S(B()))S(C())g())");
}

static void test_levels(void)
{
	begin(VMS_AGENT_BY_LEVEL, NULL);
	call(USER, USER_SP, 'm');
	enter(ENTRY_SYSCALL, 'S', in('m'), USER_SP - 0x30);
	call(KERNEL, KERNEL_SP, 'A');
	ret(KERNEL, KERNEL_SP);
	leave(in('m'), USER_SP - 0x30);
	call(USER, USER_SP - 0x10, 'f');
	end();
	expect(103, "m(f())");
	expect(100, "S(A())");
	g_assert_cmpstr(world_stream(103)->about.name, ==, "cpu0 user");
	g_assert_cmpuint(world_stream(103)->about.level, ==, 3);
	g_assert_cmpstr(world_stream(100)->about.name, ==, "cpu0 kernel");
	g_assert_null(world_stream(101));
	world_tear_down();
}

/* ---- stacks that are met -------------------------------------------------------- */

/* Threads of an unknown kernel, the second of which existed before. */
static void test_unknown_threads(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x10, 'S');
	load_stack(KERNEL);
	ret(KERNEL, OTHER_SP - 0x10);
	ret(KERNEL, OTHER_SP);
	call(KERNEL, OTHER_SP, 'B');
	call(KERNEL, OTHER_SP - 0x10, 'S');
	load_stack(KERNEL);
	ret(KERNEL, KERNEL_SP - 0x10); /* B waits */
	call(KERNEL, KERNEL_SP - 0x10, 'C');
	call(KERNEL, KERNEL_SP - 0x20, 'S');
	load_stack(KERNEL);
	ret(KERNEL, OTHER_SP - 0x10); /* B goes on */
	ret(KERNEL, OTHER_SP);
	load_stack(KERNEL);
	ret(KERNEL, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP - 0x10);
	ret(KERNEL, KERNEL_SP);
	end_with(CPU(0), "A(S(B(S()))C(S(B(S()))))");
}

/* A bare program whose main calls coroutines in turn; they begin by a return to their begin. */
static void test_coroutines(void)
{
	uint64_t a = OTHER_SP, b = OTHER_SP + 0x10000;
	begin(VMS_AGENT_BY_VCPU, functions);
	call(KERNEL, KERNEL_SP, 'M');
	for (unsigned i = 0; i < 3; i++) {
		call(KERNEL, KERNEL_SP - 0x10, 'S');
		load_stack(KERNEL);
		if (i == 0)
			ret_to(KERNEL, a, 'F');
		else
			ret(KERNEL, a - 0x20);
		call(KERNEL, a - 0x20, 'Y'); /* yields to b */
		load_stack(KERNEL);
		if (i == 0)
			ret_to(KERNEL, b, 'F');
		else
			ret(KERNEL, b - 0x40);
		call(KERNEL, b - 0x40, 'Z'); /* yields to main */
		load_stack(KERNEL);
		ret(KERNEL, KERNEL_SP - 0x10);
	}
	ret(KERNEL, KERNEL_SP);
	end_with(CPU(0), "M(S(F(Y(F(Z()))))S(F(Y()Y(F(Z()Z()))))S(F(Y()Y(F(Z()Z())))))");
}

/* More stacks than may be nested or parked. */
static void test_many_stacks(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 1000; i++) {
			load_stack(KERNEL);
			call(KERNEL, KERNEL_SP + i * 0x10000ULL - round * 0x10, 'A');
		}
	end();
	const GArray *records = world_stream(CPU(0))->records;
	g_assert_cmpuint(records->len, >=, 2 * 3000);
	for (guint i = 0; i < records->len; i++) {
		uint64_t word = g_array_index(records, struct vms_uftrace_record, i).word;
		g_assert_cmpuint(word >> 6 & 1023, <, 24);
	}
	world_tear_down();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/call_tracker/nested", test_nested);
	g_test_add_func("/call_tracker/recursion", test_recursion);
	g_test_add_func("/call_tracker/too-deep", test_too_deep);
	g_test_add_func("/call_tracker/longjmp", test_longjmp);
	g_test_add_func("/call_tracker/tail-calls", test_tail_calls);
	g_test_add_func("/call_tracker/tail-call-chain", test_tail_call_chain);
	g_test_add_func("/call_tracker/table", test_table);
	g_test_add_func("/call_tracker/retpoline", test_retpoline);
	g_test_add_func("/call_tracker/unmatched-returns", test_unmatched_returns);
	g_test_add_func("/call_tracker/jump-from-nowhere", test_jump_from_nowhere);
	g_test_add_func("/call_tracker/moved-return-address", test_moved_return_address);
	g_test_add_func("/call_tracker/time", test_time);
	g_test_add_func("/call_tracker/irq-stack", test_irq_stack);
	g_test_add_func("/call_tracker/irq-stack-cut", test_irq_stack_cut);
	g_test_add_func("/call_tracker/interrupted-leaf", test_interrupted_leaf);
	g_test_add_func("/call_tracker/interrupted-leaf-below", test_interrupted_leaf_below);
	g_test_add_func("/call_tracker/vector", test_vector);
	g_test_add_func("/call_tracker/own-stack", test_own_stack);
	g_test_add_func("/call_tracker/iret-to-itself", test_iret_to_itself);
	g_test_add_func("/call_tracker/user-interrupted", test_user_interrupted);
	g_test_add_func("/call_tracker/levels", test_levels);
	g_test_add_func("/call_tracker/unknown-threads", test_unknown_threads);
	g_test_add_func("/call_tracker/coroutines", test_coroutines);
	g_test_add_func("/call_tracker/many-stacks", test_many_stacks);
	return g_test_run();
}
