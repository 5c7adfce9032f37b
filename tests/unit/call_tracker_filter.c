/* SPDX-License-Identifier: MIT */
/* What of the calls is recorded: filters, what is open at the begin, what finds no room. */
#include "call_tracker_world.h"

#define FN(name) (0xffffffff81000000 + (name)*0x100)

static const struct vms_agent_calls all = { .kernel = 1, .user = 1 };

/* At time + 100. */
static void call_at(uint64_t time, uint64_t slot, char name)
{
	now = 1000 + time - 1;
	call(KERNEL, slot, name);
}

static void ret_at(uint64_t time, uint64_t slot)
{
	now = 1000 + time - 1;
	ret(KERNEL, slot);
}

/* A(B(C())D(C())B()) */
static void run(void)
{
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	call(KERNEL, KERNEL_SP - 0x20, 'C');
	ret(KERNEL, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP - 0x10);
	call(KERNEL, KERNEL_SP - 0x10, 'D');
	call(KERNEL, KERNEL_SP - 0x20, 'C');
	ret(KERNEL, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP - 0x10);
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	ret(KERNEL, KERNEL_SP - 0x10);
	ret(KERNEL, KERNEL_SP);
}

static void check(const struct vms_agent_calls *options, const struct vms_agent_function *functions,
		  const char *tree)
{
	begin_with(options, functions);
	run();
	end_with(CPU(0), tree);
}

/* ---- functions ------------------------------------------------------------------ */

static void test_only(void)
{
	const struct vms_agent_function b[] = { { FN('B'), VMS_AGENT_FUNCTION_ONLY }, { 0 } };
	const struct vms_agent_function none[] = { { FN('X'), VMS_AGENT_FUNCTION_ONLY }, { 0 } };
	check(&all, NULL, "A(B(C())D(C())B())");
	check(&all, b, "B(C())B()");
	check(&all, none, "");
}

static void test_not(void)
{
	const struct vms_agent_function b[] = { { FN('B'), VMS_AGENT_FUNCTION_NOT }, { 0 } };
	const struct vms_agent_function a[] = { { FN('A'), VMS_AGENT_FUNCTION_NOT },
						{ FN('C'), VMS_AGENT_FUNCTION_ONLY },
						{ 0 } };
	check(&all, b, "A(D(C()))");
	check(&all, a, "");
}

static void test_both(void)
{
	const struct vms_agent_function functions[] = { { FN('C'), VMS_AGENT_FUNCTION_NOT },
							{ FN('D'), VMS_AGENT_FUNCTION_ONLY },
							{ 0 } };
	check(&all, functions, "D()");
}

/* What a filter names is left by longjmp, and by a tail call. */
static void test_left(void)
{
	const struct vms_agent_function b[] = { { FN('B'), VMS_AGENT_FUNCTION_NOT }, { 0 } };
	begin_with(&all, b);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	call(KERNEL, KERNEL_SP - 0x20, 'B');
	call(KERNEL, KERNEL_SP - 0x10, 'C');
	call(KERNEL, KERNEL_SP - 0x20, 'B');
	jump(KERNEL, 'D');
	end_with(CPU(0), "A(C(D()))");
}

static void test_start_stop(void)
{
	const struct vms_agent_function functions[] = { { FN('B'), VMS_AGENT_FUNCTION_START },
							{ FN('D'), VMS_AGENT_FUNCTION_STOP },
							{ 0 } };
	struct vms_agent_calls options = all;
	options.wait_for_start = 1;
	begin_with(&options, functions);
	call(KERNEL, KERNEL_SP, 'D'); /* before it began */
	ret(KERNEL, KERNEL_SP);
	g_assert_false(call_trackers_stopped(world.trackers));
	run();
	g_assert_true(call_trackers_stopped(world.trackers));
	end_with(CPU(0), "B(C())");
}

/* It begins on all vCPUs. */
static void test_start_elsewhere(void)
{
	const struct vms_agent_function functions[] = { { FN('B'), VMS_AGENT_FUNCTION_START },
							{ 0 } };
	struct vms_agent_calls options = all;
	options.wait_for_start = 1;
	begin_with(&options, functions);
	call(KERNEL, KERNEL_SP, 'A');
	cpu = 1;
	call(KERNEL, KERNEL_SP - 0x8000, 'B');
	cpu = 0;
	call(KERNEL, KERNEL_SP - 0x10, 'C');
	ret(KERNEL, KERNEL_SP - 0x10);
	ret(KERNEL, KERNEL_SP);
	end();
	expect(CPU(0), "C()");
	expect(CPU(1), "B()");
	world_tear_down();
}

/* ---- depth and time --------------------------------------------------------------- */

static void test_depth(void)
{
	const struct vms_agent_function d[] = { { FN('D'), VMS_AGENT_FUNCTION_ONLY }, { 0 } };
	struct vms_agent_calls options = all;
	options.max_depth = 1;
	check(&options, NULL, "A()");
	check(&options, d, "D()");
	options.max_depth = 2;
	check(&options, NULL, "A(B()D()B())");
	options.max_depth = 3;
	check(&options, NULL, "A(B(C())D(C())B())");
}

static uint64_t time_of(guint record)
{
	return g_array_index(world_stream(CPU(0))->records, struct vms_uftrace_record, record)
		.time_ns;
}

static void test_threshold(void)
{
	struct vms_agent_calls options = all;
	options.threshold = 10;
	begin_with(&options, NULL);
	call_at(0, KERNEL_SP, 'A');
	call_at(1, KERNEL_SP - 0x10, 'B'); /* short, though there is a call in it */
	call_at(2, KERNEL_SP - 0x20, 'C');
	ret_at(9, KERNEL_SP - 0x20);
	ret_at(10, KERNEL_SP - 0x10);
	call_at(20, KERNEL_SP - 0x10, 'D');
	call_at(30, KERNEL_SP - 0x20, 'E'); /* just long enough */
	ret_at(40, KERNEL_SP - 0x20);
	call_at(40, KERNEL_SP - 0x20, 'F');
	ret_at(49, KERNEL_SP - 0x20);
	ret_at(50, KERNEL_SP - 0x10);
	call_at(51, KERNEL_SP - 0x10, 'G');
	ret_at(52, KERNEL_SP - 0x10);
	ret_at(60, KERNEL_SP);
	call_at(61, KERNEL_SP, 'H'); /* open at the end, but not for long */
	end();
	expect(CPU(0), "A(D(E()))");
	const uint64_t times[] = { 0, 20, 30, 40, 50, 60 };
	for (guint i = 0; i < G_N_ELEMENTS(times); i++)
		g_assert_cmpuint(time_of(i), ==, 1000 + times[i]);
	world_tear_down();
}

/* Calls around a long one are long, on whatever stack. */
static void test_threshold_interrupt(void)
{
	struct vms_agent_calls options = all;
	options.threshold = 10;
	begin_with(&options, NULL);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'f');
	enter(ENTRY_INTERRUPT, 'I', in('f'), USER_SP - 0x30);
	call(KERNEL, KERNEL_SP, 'A');
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	ret(KERNEL, KERNEL_SP - 0x10);
	now += 100;
	ret(KERNEL, KERNEL_SP);
	leave(in('f'), USER_SP - 0x30);
	ret(USER, USER_SP - 0x10);
	call(USER, USER_SP - 0x10, 'g');
	ret(USER, USER_SP - 0x10);
	ret(USER, USER_SP);
	end_with(CPU(0), "m(f(I(A())))");
}

/* ---- levels and processes ----------------------------------------------------------- */

static void check_level(uint32_t kernel, uint32_t user, const char *tree)
{
	const struct vms_agent_calls options = { .kernel = kernel, .user = user };
	begin_with(&options, NULL);
	call(USER, USER_SP, 'm');
	enter(ENTRY_SYSCALL, 'S', in('m'), USER_SP - 0x30);
	call(KERNEL, KERNEL_SP, 'A');
	leave(in('m'), USER_SP - 0x30);
	call(USER, USER_SP - 0x10, 'f');
	end_with(CPU(0), tree);
}

static void test_levels(void)
{
	check_level(1, 1, "m(S(A())f())");
	check_level(1, 0, "S(A())");
	check_level(0, 1, "m(f())");
}

static void test_processes(void)
{
	struct vms_agent_calls options = all;
	options.n_pids = 2;
	options.pids[0] = 101;
	options.pids[1] = 103;
	begin_with(&options, NULL);
	call(KERNEL, KERNEL_SP, 'X'); /* of nobody */
	for (unsigned i = 1; i < 4; i++) {
		switch_to(i);
		call(KERNEL, stack_of(i), (char)('A' + i));
	}
	switch_to(0);
	call(KERNEL, KERNEL_SP, 'Y');
	switch_to(1);
	call(KERNEL, stack_of(1) - 0x10, 'E');
	end_with(CPU(0), "B()D()B(E())");
}

/* ---- changes ------------------------------------------------------------------------ */

/* Filters change while calls are open: what is open is closed as it was opened. */
static void test_update(void)
{
	const struct vms_agent_function only[] = { { FN('C'), VMS_AGENT_FUNCTION_ONLY }, { 0 } };
	struct vms_agent_calls slow = all, shallow = all;
	slow.threshold = 1000;
	shallow.max_depth = 1;
	begin_with(&all, NULL);
	call(KERNEL, KERNEL_SP, 'A');
	world_update(&slow, NULL);
	call(KERNEL, KERNEL_SP - 0x10, 'B'); /* is there when it does not matter any more */
	world_update(&all, NULL);
	call(KERNEL, KERNEL_SP - 0x20, 'C');
	world_update(&all, only);
	call(KERNEL, KERNEL_SP - 0x30, 'D'); /* in a C that was no filter's */
	ret(KERNEL, KERNEL_SP - 0x30);
	call(KERNEL, KERNEL_SP - 0x30, 'C');
	world_update(&shallow, NULL);
	call(KERNEL, KERNEL_SP - 0x40, 'E');
	ret(KERNEL, KERNEL_SP - 0x40);
	ret(KERNEL, KERNEL_SP - 0x30);
	ret(KERNEL, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP - 0x10);
	ret(KERNEL, KERNEL_SP);
	call(KERNEL, KERNEL_SP, 'F');
	end_with(CPU(0), "A(B(C(C())))F()");
}

/* ---- the begin ---------------------------------------------------------------------- */

static void seed(uint64_t task, const struct vms_agent_frame *frames, uint32_t n)
{
	const struct vms_agent_stack stack = { .task = task, .vcpu = cpu, .n = n };
	track_open_calls(world.tracker[cpu], &stack, frames, ++now);
}

/* User code in the kernel, there on an interrupt's stack. */
static void seed_deep(uint64_t task)
{
	const struct vms_agent_frame frames[] = {
		{ USER_SP, fn('m'), 1 },
		{ USER_SP - 0x10, fn('f'), 1 },
		{ KERNEL_SP, fn('S'), 0 },
		{ KERNEL_SP - 0x10, fn('A'), 0 },
		{ KERNEL_SP + 0x8000, fn('H'), 0 },
	};
	seed(task, frames, G_N_ELEMENTS(frames));
}

static void run_seeded(void)
{
	call(KERNEL, KERNEL_SP + 0x8000 - 0x10, 'J');
	ret(KERNEL, KERNEL_SP + 0x8000 - 0x10);
	ret(KERNEL, KERNEL_SP + 0x8000);
	ret(KERNEL, KERNEL_SP - 0x10);
	leave(in('f'), USER_SP - 0x20);
	ret(USER, USER_SP - 0x10);
	call(USER, USER_SP - 0x10, 'g');
}

static void test_seed_vcpu(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	seed_deep(0);
	run_seeded();
	seed_deep(0); /* too late */
	end_with(CPU(0), "m(f(S(A(H(J()))))g())");
}

static void test_seed_task(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_to(1);
	seed_deep(task_va(1));
	seed_deep(task_va(2));
	run_seeded();
	seed_deep(task_va(1)); /* too late, as it is for one that is parked */
	switch_to(2);
	run_seeded();
	seed_deep(task_va(1));
	seed_deep(task_va(3)); /* which never runs */
	switch_to(1);
	end();
	expect(101, "m(f(S(A(H(J()))))g())");
	expect(102, "m(f(S(A(H(J()))))g())");
	g_assert_null(world_stream(103));
	world_tear_down();
}

static void test_seed_nonsense(void)
{
	const struct vms_agent_frame frames[] = {
		{ UINT64_MAX, fn('A'), 0 },
		{ 0, 0, 0 }, /* which function is not known */
		{ UINT64_MAX, UINT64_MAX, 0 },
		{ USER_SP, fn('m'), 1 }, /* inside the kernel */
	};
	begin(VMS_AGENT_BY_VCPU, NULL);
	seed(0, frames, G_N_ELEMENTS(frames));
	call(KERNEL, KERNEL_SP, 'B');
	end();
	g_assert_cmpuint(world_stream(CPU(0))->records->len, ==, 6);
	world_tear_down();
}

/* ---- no room ------------------------------------------------------------------------ */

/* The `back`th record from the end of the ring. */
static uint64_t last_word(unsigned back)
{
	const struct vms_ring *ring = &world.ring[0];
	uint64_t at = ring->head - back * sizeof(struct vms_uftrace_record);
	const struct vms_uftrace_record *record = (const void *)(ring->data + at % ring->size);
	return record->word;
}

static void test_ring_full(void)
{
	const struct vms_agent_calls options = all;
	world_set_up(&options, NULL, 65536);
	now = 1000;
	cpu = 0;
	call(KERNEL, KERNEL_SP, 'A');
	for (unsigned i = 0; i < 10000; i++) {
		call(KERNEL, KERNEL_SP - 0x10, 'B');
		ret(KERNEL, KERNEL_SP - 0x10);
	}
	call(KERNEL, KERNEL_SP - 0x10, 'B');
	g_assert_cmpuint(world.shared[0].lost, >, 0);
	atomic_store(&world.shared[0].tail, world.ring[0].head);
	call(KERNEL, KERNEL_SP - 0x20, 'C');
	ret(KERNEL, KERNEL_SP - 0x20);
	ret(KERNEL, KERNEL_SP - 0x10);
	ret(KERNEL, KERNEL_SP);
	g_assert_cmphex(last_word(1), ==, vms_uftrace_word(VMS_UFTRACE_EXIT, 0, fn('A')));
	g_assert_cmphex(last_word(2), ==, vms_uftrace_word(VMS_UFTRACE_EXIT, 1, fn('B')));
	g_assert_cmphex(last_word(3), ==, vms_uftrace_word(VMS_UFTRACE_EXIT, 2, fn('C')));
	g_assert_cmphex(last_word(4), ==, vms_uftrace_word(VMS_UFTRACE_ENTRY, 2, fn('C')));
	g_assert_cmpuint(last_word(5) & 3, ==, VMS_UFTRACE_LOST);
	world_tear_down();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/call_tracker_filter/only", test_only);
	g_test_add_func("/call_tracker_filter/not", test_not);
	g_test_add_func("/call_tracker_filter/both", test_both);
	g_test_add_func("/call_tracker_filter/left", test_left);
	g_test_add_func("/call_tracker_filter/start-stop", test_start_stop);
	g_test_add_func("/call_tracker_filter/start-elsewhere", test_start_elsewhere);
	g_test_add_func("/call_tracker_filter/depth", test_depth);
	g_test_add_func("/call_tracker_filter/threshold", test_threshold);
	g_test_add_func("/call_tracker_filter/threshold-interrupt", test_threshold_interrupt);
	g_test_add_func("/call_tracker_filter/levels", test_levels);
	g_test_add_func("/call_tracker_filter/processes", test_processes);
	g_test_add_func("/call_tracker_filter/update", test_update);
	g_test_add_func("/call_tracker_filter/seed-vcpu", test_seed_vcpu);
	g_test_add_func("/call_tracker_filter/seed-task", test_seed_task);
	g_test_add_func("/call_tracker_filter/seed-nonsense", test_seed_nonsense);
	g_test_add_func("/call_tracker_filter/ring-full", test_ring_full);
	return g_test_run();
}
