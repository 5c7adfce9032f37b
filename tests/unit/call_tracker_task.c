/* SPDX-License-Identifier: MIT */
/* Tasks as a kernel switches them, their programs, and the signals they get. */
#include "call_tracker_world.h"

#define ALT_SP 0x7f1230002000

static const struct vms_agent_function functions[] = {
	{ 0xffffffff81000000 + 'F' * 0x100, 0 },
	{ 0, 0 },
};

/* ---- switches ------------------------------------------------------------------- */

/* As on x86: S, __switch_to_asm, loads the stack pointer and jumps to W, __switch_to. */
static void schedule(unsigned from, unsigned to)
{
	call(KERNEL, stack_of(from) - 0x100, 'S');
	load_stack(KERNEL);
	switch_to(to);
	jump(KERNEL, 'W');
}

static void scheduled(unsigned task)
{
	ret(KERNEL, stack_of(task) - 0x100);
}

static void run_two_tasks(void)
{
	switch_to(1);
	call(KERNEL, stack_of(1), 'A');
	schedule(1, 2);
	ret_to(KERNEL, stack_of(2) - 0x80, 'F'); /* a new task: nothing is known to return from */
	call(KERNEL, stack_of(2) - 0x80, 'B');
	schedule(2, 1);
	scheduled(1);
	call(KERNEL, stack_of(1) - 0x10, 'C');
	ret(KERNEL, stack_of(1) - 0x10);
	ret(KERNEL, stack_of(1));
	schedule(1, 2);
	scheduled(2);
	ret(KERNEL, stack_of(2) - 0x80);
}

static void test_by_task(void)
{
	begin(VMS_AGENT_BY_TASK, functions);
	run_two_tasks();
	end();
	expect(101, "A(S()W()C())S()"); /* waits in its second S at the end */
	expect(102, "W()F(B(S()W()))");
	g_assert_cmpstr(world_stream(101)->about.name, ==, "task1");
	g_assert_cmpuint(world_stream(101)->about.pid, ==, 101);
	g_assert_cmpuint(world_stream(101)->spaces->len, ==, 0);
	g_assert_null(world_stream(CPU(0)));
	world_tear_down();
}

static void test_by_vcpu(void)
{
	begin(VMS_AGENT_BY_VCPU, functions);
	run_two_tasks();
	end_with(CPU(0), "A(S())W()F(B(S()))A(S()W()C())S()F(B(S()W()))");
}

/* As on aarch64: cpu_switch_to is called, and returns on the other stack. */
static void test_switch_by_call(void)
{
	begin(VMS_AGENT_BY_TASK, functions);
	switch_to(1);
	for (unsigned i = 0; i < 3; i++) {
		call(KERNEL, stack_of(1), 'S');
		switch_to(2);
		load_stack(KERNEL);
		ret(KERNEL, stack_of(2));
		call(KERNEL, stack_of(2), 'S');
		switch_to(1);
		load_stack(KERNEL);
		ret(KERNEL, stack_of(1));
	}
	end();
	expect(101, "S()S()S()");
	expect(102, "S()S()S()");
	world_tear_down();
}

/* What a vCPU does before its tasks are known, and when idle. */
static void test_idle(void)
{
	begin(VMS_AGENT_BY_TASK, functions);
	call(KERNEL, stack_of(0), 'A');
	call(KERNEL, stack_of(0) - 0x10, 'S');
	load_stack(KERNEL);
	switch_to(1);
	call(KERNEL, stack_of(1), 'B');
	switch_to(0);
	ret(KERNEL, stack_of(0) - 0x10);
	call(KERNEL, stack_of(0) - 0x10, 'C');
	end();
	expect(IDLE(0), "A(S()C())");
	expect(101, "B()");
	g_assert_cmpstr(world_stream(IDLE(0))->about.name, ==, "swapper/0");
	world_tear_down();
}

static void test_migration(void)
{
	g_autoptr(GString) expected = g_string_new("");
	begin(VMS_AGENT_BY_TASK, NULL);
	for (unsigned i = 0; i < 100; i++) {
		cpu = i % WORLD_VCPUS;
		switch_to(1);
		ret(KERNEL, stack_of(1) - 0x10);
		ret(KERNEL, stack_of(1));
		call(KERNEL, stack_of(1), 'A');
		call(KERNEL, stack_of(1) - 0x10, 'S');
		switch_to(0);
		g_string_append(expected, "A(S())");
	}
	end_with(101, expected->str);
}

/* A vCPU goes; what ran there goes on elsewhere. */
static void test_unplug(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_to(1);
	call(KERNEL, stack_of(1), 'A');
	call(KERNEL, stack_of(1) - 0x10, 'S');
	switch_to(0);
	call(KERNEL, stack_of(0), 'B');
	call_tracker_finish(world.tracker[0], ++now);
	call(KERNEL, stack_of(0), 'C'); /* not any more */
	switch_to(2);
	call(KERNEL, stack_of(2), 'C');
	call_tracker_free(world.tracker[0]);
	world.tracker[0] = call_tracker_new(world.trackers, 0, &world.ring[0]);
	call(KERNEL, stack_of(0), 'D');
	cpu = 1;
	switch_to(1);
	ret(KERNEL, stack_of(1) - 0x10);
	call(KERNEL, stack_of(1) - 0x10, 'E');
	end();
	expect(101, "A(S()E())");
	expect(IDLE(0), "B()D()");
	world_tear_down();
}

/* ---- ids ------------------------------------------------------------------------ */

static void switch_as(uint64_t va, uint32_t tid)
{
	struct task task = { .va = va, .tid = tid, .pid = tid };
	g_snprintf(task.name, sizeof(task.name), "t%" G_GINT64_MODIFIER "x", va & 0xfff);
	track_switch(world.tracker[cpu], &task, ++now);
}

/* The stream goes on: what the first one had open ended when it last ran. */
static void test_id_used_again(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_as(0xffff888000001111, 7);
	call(KERNEL, stack_of(1), 'A');
	switch_to(0);
	uint64_t left = now;
	now += 1000;
	switch_as(0xffff888000002222, 7);
	call(KERNEL, stack_of(2), 'B');
	end();
	expect(7, "A()B()");
	g_assert_cmpstr(world_stream(7)->about.name, ==, "t222");
	g_assert_cmpuint(
		g_array_index(world_stream(7)->records, struct vms_uftrace_record, 1).time_ns, ==,
		left);
	world_tear_down();
}

/* The memory of a task is another one's. */
static void test_task_used_again(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_as(0xffff888000001111, 7);
	call(KERNEL, stack_of(1), 'A');
	switch_to(0);
	switch_as(0xffff888000001111, 8);
	call(KERNEL, stack_of(1), 'B');
	end();
	expect(7, "A()");
	expect(8, "B()");
	world_tear_down();
}

/* Which Linux never does: two that run have one id; one task runs twice. */
static void test_collisions(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_as(0xffff888000001111, 7);
	call(KERNEL, stack_of(1), 'A');
	cpu = 1;
	switch_as(0xffff888000002222, 7);
	call(KERNEL, stack_of(2), 'B');
	cpu = 2;
	switch_as(0xffff888000002222, 7);
	call(KERNEL, stack_of(2), 'C');
	cpu = 0;
	switch_as(0xffff888000003333, 0xffffffff);
	call(KERNEL, stack_of(3), 'D');
	end();
	expect(7, "A()");
	expect(8388608, "B()");
	expect(IDLE(2), "C()");
	expect(8388609, "D()");
	g_assert_cmpuint(world_stream(8388608)->about.tid, ==, 7);
	world_tear_down();
}

/* ---- programs ------------------------------------------------------------------- */

static uint64_t space(uint64_t stream, guint i)
{
	return g_array_index(world_stream(stream)->spaces, struct vms_calls_space, i).mm;
}

static void run_user_code(unsigned task, char name)
{
	switch_to(task);
	leave(in(name), USER_SP - 0x100);
	call(USER, USER_SP, name);
	enter(ENTRY_SYSCALL, 'S', in(name), USER_SP - 0x20);
}

static void test_spaces(void)
{
	begin(VMS_AGENT_BY_VCPU, NULL);
	run_user_code(1, 'a');
	switch_to(0);
	switch_to(1);
	leave(in('a'), USER_SP - 0x20);
	ret(USER, USER_SP);
	run_user_code(2, 'b');
	run_user_code(1, 'c');
	end();
	expect(CPU(0), "a(S())a(S())b(S())c(S())");
	g_assert_cmpuint(world_stream(CPU(0))->spaces->len, ==, 3);
	g_assert_cmpuint(space(CPU(0), 0), ==, task_mm(1));
	g_assert_cmpuint(space(CPU(0), 1), ==, task_mm(2));
	g_assert_cmpuint(space(CPU(0), 2), ==, task_mm(1));
	world_tear_down();
}

/* The memory that told one process's address space tells another one's. */
static void test_space_used_again(void)
{
	struct task task = {
		.va = task_va(2), .mm = task_mm(1), .tid = 102, .pid = 102, .name = "other"
	};
	begin(VMS_AGENT_BY_VCPU, NULL);
	run_user_code(1, 'a');
	track_switch(world.tracker[0], &task, ++now);
	leave(in('b'), USER_SP - 0x100);
	call(USER, USER_SP, 'b');
	task.va = task_va(3);
	task.tid = 103; /* a thread of it */
	track_switch(world.tracker[0], &task, ++now);
	leave(in('c'), USER_SP - 0x100);
	call(USER, USER_SP, 'c');
	end();
	expect(CPU(0), "a(S())b()c()");
	g_assert_cmpuint(world_stream(CPU(0))->spaces->len, ==, 2);
	g_assert_cmpuint(g_array_index(world_stream(CPU(0))->spaces, struct vms_calls_space, 1).pid,
			 ==, 102);
	world_tear_down();
}

/* The child has none of its parent's calls: its returns out of them fit none. */
static void test_fork(void)
{
	begin(VMS_AGENT_BY_TASK, functions);
	switch_to(1);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'f');
	enter(ENTRY_SYSCALL, 'A', in('f'), USER_SP - 0x20);
	load_stack(KERNEL);
	switch_to(2);
	ret_to(KERNEL, stack_of(2) - 0x80, 'F');
	leave(in('f'), USER_SP - 0x20);
	ret(USER, USER_SP - 0x10);
	call(USER, USER_SP - 0x10, 'c');
	enter(ENTRY_SYSCALL, 'A', in('c'), USER_SP - 0x20);
	load_stack(KERNEL);
	switch_to(1);
	leave(in('f'), USER_SP - 0x20);
	ret(USER, USER_SP - 0x10);
	call(USER, USER_SP - 0x10, 'p');
	end();
	expect(101, "m(f(A())p())");
	expect(102, "F()c(A())");
	g_assert_cmpuint(world_stream(101)->spaces->len, ==, 1);
	g_assert_cmpuint(space(101, 0), ==, task_mm(1));
	g_assert_cmpuint(space(102, 0), ==, task_mm(2));
	world_tear_down();
}

static void exec_in_user_code(void)
{
	switch_to(1);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'f');
	enter(ENTRY_SYSCALL, 'S', in('f'), USER_SP - 0x20);
	call(KERNEL, stack_of(1), 'E');
}

static void check_exec(void)
{
	call(USER, USER_SP + 0x2f00, 'x');
	ret(USER, USER_SP + 0x2f00);
	end();
	expect(101, "m(f(S(E())))n(x())");
	g_assert_cmpuint(world_stream(101)->spaces->len, ==, 2);
	g_assert_cmpuint(space(101, 0), ==, task_mm(1));
	g_assert_cmpuint(space(101, 1), ==, task_mm(9));
	world_tear_down();
}

static void test_exec(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	exec_in_user_code();
	g_assert_true(call_tracker_resumes_user(world.tracker[0], in('f'), USER_SP - 0x20));
	g_assert_false(call_tracker_resumes_user(world.tracker[0], fn('n'), USER_SP - 0x20));
	g_assert_false(call_tracker_resumes_user(world.tracker[0], in('f'), USER_SP + 0x3000));
	track_new_space(world.tracker[0], task_mm(9), "new");
	leave(fn('n'), USER_SP + 0x3000);
	g_assert_false(call_tracker_resumes_user(world.tracker[0], in('f'), USER_SP - 0x20));
	check_exec();
}

/* It has its new memory long before it leaves the kernel, and waits meanwhile. */
static void test_exec_switched(void)
{
	struct task task = {
		.va = task_va(1), .mm = task_mm(9), .tid = 101, .pid = 101, .name = "new"
	};
	begin(VMS_AGENT_BY_TASK, NULL);
	exec_in_user_code();
	switch_to(0);
	track_switch(world.tracker[0], &task, ++now);
	leave(fn('n'), USER_SP + 0x3000);
	check_exec();
}

/* That it is another program was not seen before it ran. */
static void test_exec_seen_late(void)
{
	struct task task = {
		.va = task_va(1), .mm = task_mm(9), .tid = 101, .pid = 101, .name = "new"
	};
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_to(1);
	call(USER, USER_SP, 'm');
	enter(ENTRY_INTERRUPT, 'I', in('m'), USER_SP - 0x20);
	track_switch(world.tracker[0], &task, ++now);
	leave(in('m'), USER_SP - 0x20);
	call(USER, USER_SP - 0x20, 'f');
	end();
	expect(101, "m(I()f())");
	g_assert_cmpuint(space(101, 1), ==, task_mm(9));
	world_tear_down();
}

/* One that ends has no memory any more; its calls are still of its program. */
static void test_exit(void)
{
	struct task task = { .va = task_va(1), .tid = 101, .pid = 101, .name = "task1" };
	begin(VMS_AGENT_BY_TASK, NULL);
	exec_in_user_code();
	switch_to(0);
	track_switch(world.tracker[0], &task, ++now);
	call(KERNEL, stack_of(1) - 0x10, 'X');
	switch_to(0);
	end();
	expect(101, "m(f(S(E(X()))))");
	g_assert_cmpuint(world_stream(101)->spaces->len, ==, 1);
	world_tear_down();
}

static void test_renamed(void)
{
	struct task task = {
		.va = task_va(1), .mm = task_mm(1), .tid = 101, .pid = 101, .name = "worker"
	};
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_to(1);
	call(KERNEL, stack_of(1), 'A');
	track_switch(world.tracker[0], &task, ++now);
	call(KERNEL, stack_of(1), 'B');
	end();
	expect(101, "A()B()");
	g_assert_cmpstr(world_stream(101)->about.name, ==, "worker");
	world_tear_down();
}

/* ---- signals -------------------------------------------------------------------- */

/* m has called f, which is interrupted by I. */
static void interrupt_f(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_to(1);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'f');
	enter(ENTRY_INTERRUPT, 'I', in('f'), USER_SP - 0x50);
}

static void resume_f(void)
{
	leave(in('f'), USER_SP - 0x50);
	call(USER, USER_SP - 0x60, 'k');
	ret(USER, USER_SP - 0x60);
	ret(USER, USER_SP - 0x10);
	ret(USER, USER_SP);
}

/* The handler called with `sp` returns, to what calls sigreturn. */
static void handler_returns(uint64_t sp)
{
	ret(USER, sp);
	enter(ENTRY_SYSCALL, 'S', in('r'), sp + 8);
}

static void check_handler(uint64_t sp)
{
	interrupt_f();
	leave(fn('h'), sp);
	call(USER, sp - 0x20, 'g');
	ret(USER, sp - 0x20);
	handler_returns(sp);
	resume_f();
	end_with(101, "m(f(I()h(g())S()k()))");
}

static void test_signal(void)
{
	check_handler(USER_SP - 0x400);
}

static void test_alternate_stack(void)
{
	check_handler(ALT_SP - 0x400);
	check_handler(USER_SP + 0x100000);
	check_handler(0x10000);
}

/* Its stack is a variable of a function that is open. */
static void test_embedded_stack(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_to(1);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x8000, 'f');
	enter(ENTRY_INTERRUPT, 'I', in('f'), USER_SP - 0x8050);
	leave(fn('h'), USER_SP - 0x1000);
	call(USER, USER_SP - 0x1020, 'g');
	ret(USER, USER_SP - 0x1020);
	handler_returns(USER_SP - 0x1000);
	leave(in('f'), USER_SP - 0x8050);
	call(USER, USER_SP - 0x8060, 'k');
	ret(USER, USER_SP - 0x8060);
	ret(USER, USER_SP - 0x8000);
	ret(USER, USER_SP);
	end_with(101, "m(f(I()h(g())S()k()))");
}

static void test_signal_in_handler(void)
{
	interrupt_f();
	leave(fn('h'), USER_SP - 0x400);
	enter(ENTRY_SYSCALL, 'K', in('h'), USER_SP - 0x420);
	leave(fn('i'), USER_SP - 0x800);
	handler_returns(USER_SP - 0x800);
	leave(in('h'), USER_SP - 0x420);
	handler_returns(USER_SP - 0x400);
	resume_f();
	end_with(101, "m(f(I()h(K()i()S())S()k()))");
}

/* The second one's handler is called before the first one's begins. */
static void check_two_at_once(uint64_t sp)
{
	interrupt_f();
	leave(fn('i'), sp - 0x400);
	handler_returns(sp - 0x400);
	leave(fn('h'), sp);
	handler_returns(sp);
	resume_f();
	end_with(101, "m(f(I()i()S()h()S()k()))");
}

static void test_two_signals_at_once(void)
{
	check_two_at_once(USER_SP - 0x400);
	check_two_at_once(ALT_SP - 0x400);
}

/* The handler leaves by longjmp into m; and the next time again. */
static void check_jump_out(uint64_t sp)
{
	interrupt_f();
	for (unsigned i = 0; i < 3; i++) {
		leave(fn('h'), sp - i * 0x40);
		call(USER, sp - 0x100, 'l');
		load_stack(USER);
		call(USER, USER_SP - 0x10, 'f');
		enter(ENTRY_INTERRUPT, 'I', in('f'), USER_SP - 0x50);
	}
	resume_f();
	end_with(101, "m(f(I()h(l()))f(I()h(l()))f(I()h(l()))f(I()k()))");
}

static void test_jump_out_of_handler(void)
{
	check_jump_out(USER_SP - 0x400);
	check_jump_out(ALT_SP - 0x400);
}

/* The handler has put a call where f was interrupted (Go's preemption). */
static void test_call_put_in(void)
{
	interrupt_f();
	leave(fn('h'), ALT_SP - 0x400);
	handler_returns(ALT_SP - 0x400);
	leave(fn('p'), USER_SP - 0x58);
	ret(USER, USER_SP - 0x58);
	enter(ENTRY_INTERRUPT, 'I', in('f'), USER_SP - 0x50);
	resume_f();
	end_with(101, "m(f(I()h()S()p()I()k()))");
}

/* sigreturn to what no handler interrupted: frames are cut, and no call is seen in it. */
static void test_unknown_context(void)
{
	interrupt_f();
	leave(fn('h'), USER_SP - 0x400);
	enter(ENTRY_SYSCALL, 'S', in('h'), USER_SP - 0x410);
	leave(in('m'), USER_SP - 0x8);
	call(USER, USER_SP - 0x10, 'k');
	ret(USER, USER_SP - 0x10);
	end_with(101, "m(f(I()h(S()))k())");
}

/* f asks for the signal itself; later it is restarted after one without a handler. */
static void test_raise(void)
{
	begin(VMS_AGENT_BY_TASK, NULL);
	switch_to(1);
	call(USER, USER_SP, 'm');
	call(USER, USER_SP - 0x10, 'f');
	enter(ENTRY_SYSCALL, 'K', in('f'), USER_SP - 0x50);
	leave(fn('h'), USER_SP - 0x400);
	handler_returns(USER_SP - 0x400);
	leave(in('f'), USER_SP - 0x50);
	enter(ENTRY_SYSCALL, 'K', in('f'), USER_SP - 0x50);
	leave(in('f') - 2, USER_SP - 0x50);
	enter(ENTRY_SYSCALL, 'K', in('f'), USER_SP - 0x50);
	resume_f();
	end_with(101, "m(f(K()h()S()K()K()k()))");
}

/* More handlers in one another than are remembered. */
static void test_many_signals(void)
{
	uint64_t sp = USER_SP - 0x50;
	interrupt_f();
	for (unsigned i = 0; i < 100; i++) {
		sp -= 0x400;
		leave(fn('h'), sp);
		enter(ENTRY_INTERRUPT, 'I', in('h'), sp);
	}
	for (unsigned i = 0; i < 100; i++) {
		leave(in('h'), sp);
		handler_returns(sp);
		sp += 0x400;
	}
	leave(in('f'), USER_SP - 0x50);
	ret(USER, USER_SP);
	end();
	g_assert_cmpuint(world_stream(101)->records->len, >=, 2 * (2 + 300));
	world_tear_down();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/call_tracker_task/by-task", test_by_task);
	g_test_add_func("/call_tracker_task/by-vcpu", test_by_vcpu);
	g_test_add_func("/call_tracker_task/switch-by-call", test_switch_by_call);
	g_test_add_func("/call_tracker_task/idle", test_idle);
	g_test_add_func("/call_tracker_task/migration", test_migration);
	g_test_add_func("/call_tracker_task/unplug", test_unplug);
	g_test_add_func("/call_tracker_task/id-used-again", test_id_used_again);
	g_test_add_func("/call_tracker_task/task-used-again", test_task_used_again);
	g_test_add_func("/call_tracker_task/collisions", test_collisions);
	g_test_add_func("/call_tracker_task/spaces", test_spaces);
	g_test_add_func("/call_tracker_task/space-used-again", test_space_used_again);
	g_test_add_func("/call_tracker_task/fork", test_fork);
	g_test_add_func("/call_tracker_task/exec", test_exec);
	g_test_add_func("/call_tracker_task/exec-switched", test_exec_switched);
	g_test_add_func("/call_tracker_task/exec-seen-late", test_exec_seen_late);
	g_test_add_func("/call_tracker_task/exit", test_exit);
	g_test_add_func("/call_tracker_task/renamed", test_renamed);
	g_test_add_func("/call_tracker_task/signal", test_signal);
	g_test_add_func("/call_tracker_task/alternate-stack", test_alternate_stack);
	g_test_add_func("/call_tracker_task/embedded-stack", test_embedded_stack);
	g_test_add_func("/call_tracker_task/signal-in-handler", test_signal_in_handler);
	g_test_add_func("/call_tracker_task/two-signals-at-once", test_two_signals_at_once);
	g_test_add_func("/call_tracker_task/jump-out-of-handler", test_jump_out_of_handler);
	g_test_add_func("/call_tracker_task/call-put-in", test_call_put_in);
	g_test_add_func("/call_tracker_task/unknown-context", test_unknown_context);
	g_test_add_func("/call_tracker_task/raise", test_raise);
	g_test_add_func("/call_tracker_task/many-signals", test_many_signals);
	return g_test_run();
}
