/* SPDX-License-Identifier: MIT */
/* Tasks in memory laid out by hand, the way a kernel has them and in ways that none has. */
#include "guest/linux/task.h"
#include "arch/x86_64.h"
#include "base/budget.h"
#include "capture/capture.h"
#include "fake_linux.h"
#include "guest/guest-private.h"
#include "guest/linux/core_vcpus.h"
#include "guest/linux/operations.h"
#include "guest/linux/percpu.h"
#include "guest/linux/process.h"

#define BASE	  UINT64_C(0xffff888000000000)
#define RAM	  0x10000
#define TASK(i)	  (BASE + (i)*0x100)
#define SIGNAL(i) (BASE + 0x8000 + (i)*0x40)
#define MM	  (BASE + 0xb000)
#define PERCPU(i) (BASE + 0xc000 + (i)*0x1000)
#define USER	  UINT64_C(0x7f0000000000)
#define KERNEL_CS 0x10
#define USER_CS	  0x33
#define CURRENT	  0x20 /* zero-based, as per-CPU symbols are before 6.15 */
#define THIS_CPU  0x10
#define QUEUE	  0x200 /* the per-CPU run queue */
#define CPUS	  4
#define OFFSETS	  (BASE + 0x9000) /* of the CPUs' per-CPU variables */
#define NR_CPUS	  (BASE + 0x9100)
#define ONLINE	  (BASE + 0x9108)
#define NOTES	  (BASE + 0x9110) /* points to the per-CPU variable that holds a CPU's note */
#define NOTE	  0x100
#define PGD	  (BASE + 0x5000)
#define SLEEP	  UINT64_C(0xffffffff81000000) /* code that only puts threads to sleep */

/* Where this kernel has its members. */
enum {
	PID = 4,
	TGID = 0,
	MM_POINTER = 8,
	COMM = 0x10,
	EXIT_STATE = 0x20,
	STATE = 0x24,
	REAL_PARENT = 0x28,
	GROUP_LEADER = 0x30,
	SIGNAL_POINTER = 0x38,
	TASKS = 0x40,
	THREAD_NODE = 0x50,
	ON_CPU = 0x60,
	VOLUNTARY = 0x68,
	INVOLUNTARY = 0x70,
	WAKE_CPU = 0x78,
	STACK = 0x80,
	QUEUE_CURRENT = 8,
	THREAD_HEAD = 8,
	START_CODE = 8
};

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
};

static GByteArray *types(void)
{
	static const struct encoder_member task[] = {
		{ "tgid", TGID, 4 },
		{ "pid", PID, 4 },
		{ "mm", MM_POINTER, 8 },
		{ "comm", COMM, 16 },
		{ "exit_state", EXIT_STATE, 4 },
		{ "__state", STATE, 4 },
		{ "real_parent", REAL_PARENT, 8 },
		{ "group_leader", GROUP_LEADER, 8 },
		{ "signal", SIGNAL_POINTER, 8 },
		{ "tasks", TASKS, 16 },
		{ "thread_node", THREAD_NODE, 16 },
		{ "on_cpu", ON_CPU, 4 },
		{ "nvcsw", VOLUNTARY, 8 },
		{ "nivcsw", INVOLUNTARY, 8 },
		{ "wake_cpu", WAKE_CPU, 4 },
		{ "stack", STACK, 8 },
	};
	static const struct encoder_member queue[] = { { "curr", QUEUE_CURRENT, 8 } };
	static const struct encoder_member signal[] = { { "thread_head", THREAD_HEAD, 16 } };
	static const struct encoder_member mm[] = { { "pgd", 0, 8 },
						    { "start_code", START_CODE, 8 } };
	struct encoder encoder = encoder_new();
	put_structure(&encoder, "task_struct", 0x100, G_N_ELEMENTS(task), task);
	put_structure(&encoder, "signal_struct", 0x40, 1, signal);
	put_structure(&encoder, "mm_struct", 16, G_N_ELEMENTS(mm), mm);
	put_structure(&encoder, "rq", 16, 1, queue);
	return finish(&encoder);
}

static void write_u64(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

static void write_u32(struct fixture *f, uint64_t va, uint32_t value)
{
	memcpy(fake_machine_at(f->machine, va), &value, sizeof(value));
}

static void write_task(struct fixture *f, unsigned i, unsigned leader, const char *comm)
{
	write_u32(f, TASK(i) + PID, i);
	write_u32(f, TASK(i) + TGID, leader);
	write_u64(f, TASK(i) + MM_POINTER, i ? MM : 0);
	memcpy(fake_machine_at(f->machine, TASK(i) + COMM), comm, strlen(comm) + 1);
	write_u64(f, TASK(i) + REAL_PARENT, TASK(0));
	write_u64(f, TASK(i) + GROUP_LEADER, TASK(leader));
	write_u64(f, TASK(i) + SIGNAL_POINTER, SIGNAL(leader));
}

static void link_nodes(struct fixture *f, uint64_t from, uint64_t to)
{
	write_u64(f, from, to);
	if (to >= BASE && to < BASE + RAM - 16)
		write_u64(f, to + 8, from);
}

/* Processes 1 (threads 1 and 4) and 3, listed in another order than by number. */
static void setup(struct fixture *f, const void *data)
{
	static const struct fake_symbol symbols[] = { { "this_cpu_off", THIS_CPU },
						      { "current_task", CURRENT },
						      { "init_task", TASK(0) },
						      { "__per_cpu_offset", OFFSETS },
						      { "nr_cpu_ids", NR_CPUS },
						      { "__cpu_online_mask", ONLINE },
						      { "crash_notes", NOTES },
						      { "__sched_text_start", SLEEP },
						      { "__sched_text_end", SLEEP + 0x100 },
						      { "runqueues", QUEUE },
						      { NULL, 0 } };
	(void)data;
	f->machine = fake_machine_new(&vms_arch_x86_64, 2);
	fake_machine_add_ram(f->machine, BASE, RAM);
	fake_machine_add_ram(f->machine, USER, 0x1000);
	f->guest = fake_linux_new(f->machine, symbols, types());
	write_task(f, 0, 0, "swapper");
	write_task(f, 1, 1, "first");
	write_task(f, 3, 3, "third\033[31m");
	write_task(f, 4, 1, "thread");
	link_nodes(f, TASK(0) + TASKS, TASK(3) + TASKS);
	link_nodes(f, TASK(3) + TASKS, TASK(1) + TASKS);
	link_nodes(f, TASK(1) + TASKS, TASK(0) + TASKS);
	link_nodes(f, SIGNAL(3) + THREAD_HEAD, TASK(3) + THREAD_NODE);
	link_nodes(f, TASK(3) + THREAD_NODE, SIGNAL(3) + THREAD_HEAD);
	link_nodes(f, SIGNAL(1) + THREAD_HEAD, TASK(4) + THREAD_NODE);
	link_nodes(f, TASK(4) + THREAD_NODE, TASK(1) + THREAD_NODE);
	link_nodes(f, TASK(1) + THREAD_NODE, SIGNAL(1) + THREAD_HEAD);
	write_u32(f, NR_CPUS, CPUS);
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		write_u64(f, OFFSETS + cpu * 8, PERCPU(cpu));
		write_u64(f, PERCPU(cpu) + THIS_CPU, PERCPU(cpu));
		write_u64(f, PERCPU(cpu) + CURRENT, TASK(cpu ? 4 : 0));
	}
	f->guest->tasks = vms_linux_tasks_new(f->guest);
	g_assert_nonnull(f->guest->tasks);
}

static void teardown(struct fixture *f, const void *data)
{
	(void)data;
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

static void test_list(struct fixture *f, const void *data)
{
	static const struct {
		uint32_t pid, tid;
		const char *comm, *process;
	} expected[] = {
		{ 1, 1, "first", "first" },
		{ 1, 4, "thread", "first" },
		{ 3, 3, "third?[31m", "third?[31m" },
	};
	(void)data;
	GError *error = NULL;
	g_autoptr(GArray) tasks = vms_linux_tasks_list(f->guest, NULL, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(tasks->len, ==, G_N_ELEMENTS(expected));
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		g_assert_cmpuint(task->pid, ==, expected[i].pid);
		g_assert_cmpuint(task->tid, ==, expected[i].tid);
		g_assert_cmpuint(task->ppid, ==, 0);
		g_assert_cmpuint(task->mm, ==, MM);
		g_assert_cmpstr(task->comm, ==, expected[i].comm);
		g_assert_cmpstr(task->process_comm, ==, expected[i].process);
		g_assert_false(task->is_idle);
	}
}

static void test_layout(struct fixture *f, const void *data)
{
	struct vms_task_layout layout;
	(void)data;
	g_assert_true(vms_linux_task_layout(f->guest, &layout));
	g_assert_cmpuint(layout.tid, ==, PID);
	g_assert_cmpuint(layout.pid, ==, TGID);
	g_assert_cmpuint(layout.mm, ==, MM_POINTER);
	g_assert_cmpuint(layout.comm, ==, COMM);
	vms_linux_tasks_free(g_steal_pointer(&f->guest->tasks));
	g_assert_false(vms_linux_task_layout(f->guest, &layout));
}

static void test_has(struct fixture *f, const void *data)
{
	(void)data;
	g_assert_true(vms_linux_task_has(f->guest, TASK(4), 1, MM));
	g_assert_false(vms_linux_task_has(f->guest, TASK(4), 4, MM));
	g_assert_false(vms_linux_task_has(f->guest, TASK(4), 1, MM + 8));
	g_assert_false(vms_linux_task_has(f->guest, 8, 1, MM)); /* cannot be read */
	write_u64(f, TASK(4) + MM_POINTER, 0);			/* it ends */
	g_assert_false(vms_linux_task_has(f->guest, TASK(4), 1, MM));
	vms_linux_tasks_free(g_steal_pointer(&f->guest->tasks));
	g_assert_false(vms_linux_task_has(f->guest, TASK(1), 1, MM));
}

/* Values from include/linux/sched.h, letters from ps(1). */
static void test_states(struct fixture *f, const void *data)
{
	static const struct {
		uint32_t state, exit_state;
		char letter;
	} expected[] = {
		{ 0, 0, 'R' },	   { 1, 0, 'S' },	{ 2, 0, 'D' },	     { 4, 0, 'T' },
		{ 8, 0, 't' },	   { 0x80, 0x10, 'X' }, { 0x80, 0x20, 'Z' }, { 0x40, 0, 'P' },
		{ 0x402, 0, 'I' }, { 0x102, 0, 'D' },	{ 0x2001, 0, 'S' },  { 0x1000, 0, 'D' },
	};
	(void)data;
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
		write_u32(f, TASK(1) + STATE, expected[i].state);
		write_u32(f, TASK(1) + EXIT_STATE, expected[i].exit_state);
		g_autoptr(GArray) tasks = vms_linux_tasks_list(f->guest, NULL, NULL);
		g_assert_cmpint(g_array_index(tasks, struct vms_task, 0).state, ==,
				expected[i].letter);
	}
}

/* The thread that a vCPU with these segment bases runs, or -1. */
static int current(struct fixture *f, uint64_t cs, uint64_t gs_base, uint64_t k_gs_base)
{
	struct vms_regs regs = { 0 };
	struct vms_task task;
	vms_regs_set(&regs, CS, cs);
	vms_regs_set(&regs, GS_BASE, gs_base);
	vms_regs_set(&regs, K_GS_BASE, k_gs_base);
	return vms_linux_current(f->guest, f->guest->memory, &regs, &task) ? (int)task.tid : -1;
}

static void test_current(struct fixture *f, const void *data)
{
	(void)data;
	g_assert_cmpint(current(f, KERNEL_CS, PERCPU(0), 0), ==, 0);
	g_assert_cmpint(current(f, KERNEL_CS, PERCPU(1), 0), ==, 4);
	g_assert_cmpint(current(f, USER_CS, 0, PERCPU(1)), ==, 4);
	/* Just entered the kernel: the bases are not exchanged yet. */
	g_assert_cmpint(current(f, KERNEL_CS, USER, PERCPU(1)), ==, 4);
	/* A user program has set its base to another CPU's. */
	g_assert_cmpint(current(f, USER_CS, PERCPU(0), PERCPU(1)), ==, 4);
	/* … or to memory of its own that looks like one. */
	write_u64(f, USER + THIS_CPU, USER);
	write_u64(f, USER + CURRENT, TASK(1));
	g_assert_cmpint(current(f, KERNEL_CS, USER, PERCPU(1)), ==, 4);
	g_assert_cmpint(current(f, KERNEL_CS, USER, 0), ==, -1);
	g_assert_cmpint(current(f, KERNEL_CS, 0, 0), ==, -1);
	write_u64(f, PERCPU(1) + CURRENT, UINT64_MAX);
	g_assert_cmpint(current(f, KERNEL_CS, PERCPU(1), 0), ==, -1);
}

/* The thread that a vCPU runs in the kernel with this stack pointer. */
static uint32_t current_by_stack(struct fixture *f, uint64_t sp)
{
	struct vms_regs regs = { 0 };
	struct vms_task task;
	vms_regs_set(&regs, CS, KERNEL_CS);
	vms_regs_set(&regs, GS_BASE, PERCPU(1));
	vms_regs_set(&regs, RSP, sp);
	g_assert_true(vms_linux_current(f->guest, f->guest->memory, &regs, &task));
	return task.tid;
}

/* In a switch from thread 4 to 3, the stack is thread 3's before the current task is. */
static void test_switch(struct fixture *f, const void *data)
{
	const uint64_t from = 0x100000, to = 0x200000, size = 16384;
	(void)data;
	write_u64(f, TASK(4) + STACK, from);
	write_u64(f, TASK(3) + STACK, to);
	write_u64(f, PERCPU(1) + QUEUE + QUEUE_CURRENT, TASK(3));
	g_assert_cmpuint(current_by_stack(f, from), ==, 4);
	g_assert_cmpuint(current_by_stack(f, from + size - 8), ==, 4);
	g_assert_cmpuint(current_by_stack(f, to), ==, 3);
	g_assert_cmpuint(current_by_stack(f, to + size - 8), ==, 3);
	g_assert_cmpuint(current_by_stack(f, to + size), ==, 4); /* as an interrupt's stack */
	write_u64(f, PERCPU(1) + QUEUE + QUEUE_CURRENT, UINT64_MAX);
	g_assert_cmpuint(current_by_stack(f, to), ==, 4);
}

/* While the CPU has other page tables, user addresses are read by those of the process. */
static void test_enter_process(struct fixture *f, const void *data)
{
	g_autoptr(vms_memory) memory = vms_memory_new(f->machine, fake_machine_regs(f->machine, 1));
	const struct vms_task task = { .mm = MM, .pid = 1 }, ended = { .pid = 1 },
			      unreadable = { .mm = 8, .pid = 1 };
	(void)data;
	f->guest->processes = vms_linux_processes_new(f->guest);
	const struct vms_process *process = vms_linux_process(f->guest, &task);
	write_u64(f, MM, PGD);
	write_u64(f, MM + START_CODE, 0x401000);
	g_assert_true(vms_linux_enter_process(f->guest, memory, process));
	g_assert_cmphex(vms_memory_regs(memory)->value[CR3], ==, PGD);
	g_assert_true(vms_linux_enter_process(f->guest, memory,
					      vms_linux_process(f->guest, &unreadable)));
	g_assert_cmphex(vms_memory_regs(memory)->value[CR3], ==, PGD);
	g_assert_false(
		vms_linux_enter_process(f->guest, memory, vms_linux_process(f->guest, &ended)));
}

/* In the middle of execve(2): the new memory is not that of the program which has called it. */
static void test_enter_new_program(struct fixture *f, const void *data)
{
	g_autoptr(vms_memory) memory = vms_memory_new(f->machine, fake_machine_regs(f->machine, 1));
	const struct vms_task task = { .mm = MM, .pid = 1 };
	(void)data;
	f->guest->processes = vms_linux_processes_new(f->guest);
	const struct vms_process *process = vms_linux_process(f->guest, &task);
	write_u64(f, MM, PGD);
	write_u64(f, MM + START_CODE, 0);
	g_assert_false(vms_linux_enter_process(f->guest, memory, process));
}

/* A sample's record says which thread ran, and by which number its process is known. */
static void test_record(struct fixture *f, const void *data)
{
	struct vms_guest guest = { .machine = f->machine,
				   .ops = &vms_linux_ops,
				   .system = f->guest,
				   .symbolizer = f->guest->symbolizer };
	g_autoptr(vms_memory) memory = vms_memory_new(f->machine, fake_machine_regs(f->machine, 1));
	g_autofree struct vms_sample_record *record = g_new0(struct vms_sample_record, 1);
	struct vms_regs *regs = fake_machine_regs(f->machine, 1);
	GError *error = NULL;
	(void)data;
	f->guest->processes = vms_linux_processes_new(f->guest);
	vms_regs_set(regs, CS, KERNEL_CS);
	vms_regs_set(regs, GS_BASE, PERCPU(1));
	vms_regs_set(regs, RIP, BASE);
	g_assert_true(vms_machine_hold(f->machine, 1, NULL));
	g_autofree struct vms_user_copy *copy = g_new0(struct vms_user_copy, 1);
	vms_capture_vcpu(f->machine, &guest, memory, 1, 16, record, copy, &error);
	g_assert_no_error(error);
	g_assert_true(vms_machine_release(f->machine, 1, NULL));
	g_assert_cmpuint(record->vcpu, ==, 1);
	g_assert_cmpuint(record->pid, ==, 1);
	g_assert_cmpuint(record->tid, ==, 4);
	g_assert_cmpstr(vms_symbolizer_process(f->guest->symbolizer, record->space)->comm, ==,
			"first");
	g_assert_cmpuint(record->stack.n, >, 0);
}

static void assert_list_fails(struct fixture *f, int code)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_linux_tasks_list(f->guest, NULL, &error));
	g_assert_error(error, VMS_ERROR, code);
}

static void test_hostile_lists(struct fixture *f, const void *data)
{
	(void)data;
	link_nodes(f, TASK(1) + TASKS, TASK(3) + TASKS);
	assert_list_fails(f, VMS_ERROR_MALFORMED);
	link_nodes(f, TASK(1) + TASKS, TASK(0) + TASKS);
	link_nodes(f, TASK(4) + THREAD_NODE, TASK(4) + THREAD_NODE);
	assert_list_fails(f, VMS_ERROR_MALFORMED);
	write_u64(f, TASK(0) + TASKS, BASE + RAM - 4);
	assert_list_fails(f, VMS_ERROR_UNREADABLE);
}

/* "1/1 1/4 …": process and thread of all that can be read. */
static void assert_damaged(struct fixture *f, int code, const char *expected)
{
	g_autoptr(GError) loss = NULL;
	g_autoptr(GError) error = NULL;
	g_autoptr(GString) found = g_string_new(NULL);
	g_autoptr(GArray) tasks = vms_linux_tasks_list(f->guest, &loss, &error);
	g_assert_no_error(error);
	g_assert_error(loss, VMS_ERROR, code);
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		g_string_append_printf(found, "%u/%u ", task->pid, task->tid);
	}
	g_assert_cmpstr(found->str, ==, expected);
	assert_list_fails(f, code);
}

/* What lies before and behind the damage is listed, each thread once. */
static void test_damaged_lists(struct fixture *f, const void *data)
{
	(void)data;
	const uint64_t third = TASK(3) + TASKS, threads = SIGNAL(1) + THREAD_HEAD;
	write_u64(f, third, third);
	assert_damaged(f, VMS_ERROR_MALFORMED, "1/1 1/4 3/3 ");
	write_u64(f, third, 0);
	assert_damaged(f, VMS_ERROR_UNREADABLE, "1/1 1/4 3/3 ");
	link_nodes(f, third, TASK(1) + TASKS);
	write_u64(f, TASK(3) + SIGNAL_POINTER, UINT64_MAX - 4);
	assert_damaged(f, VMS_ERROR_UNREADABLE, "1/1 1/4 3/3 ");
	write_u64(f, TASK(3) + SIGNAL_POINTER, SIGNAL(3));
	write_u64(f, threads,
		  threads + 0x1000); /* the list of its threads is lost, but for the end */
	write_u64(f, threads + 8, 0);
	assert_damaged(f, VMS_ERROR_UNREADABLE, "1/1 3/3 ");
	write_u64(f, TASK(0) + TASKS, 0);
	write_u64(f, TASK(0) + TASKS + 8, 0);
	assert_list_fails(f, VMS_ERROR_UNREADABLE);
}

/* A process whose threads are a word apart, in memory in which every word leads to the next. */
static void make_threads(struct fixture *f, unsigned process, uint64_t first, unsigned n)
{
	write_task(f, process, process, "many");
	for (unsigned i = 0; i < n; i++)
		write_u64(f, first + i * UINT64_C(8), first + (i + 1) * UINT64_C(8));
	write_u64(f, first + (n - 1) * UINT64_C(8), SIGNAL(process) + THREAD_HEAD);
	write_u64(f, SIGNAL(process) + THREAD_HEAD, first);
	write_u64(f, TASK(process - 1) + TASKS, TASK(process) + TASKS);
	write_u64(f, TASK(process) + TASKS, TASK(0) + TASKS);
}

/* Nine processes of 131072 threads each: more than are believed of all together. */
static void test_many_threads(struct fixture *f, const void *data)
{
	enum { N = 131072, MOST = 8 };
	const uint64_t words = BASE + 0x100000, size = (MOST + 1) * N * UINT64_C(8);
	(void)data;
	fake_machine_add_ram(f->machine, words - 0x1000, size + 0x3000);
	for (uint64_t va = words - 0x1000; va < words + size + 0x1000; va += 8)
		write_u64(f, va, va + 8);
	for (unsigned n = 1; n <= MOST; n++)
		make_threads(f, n, words + (n - 1) * N * UINT64_C(8), N);
	g_autoptr(GArray) tasks = vms_linux_tasks_list(f->guest, NULL, NULL);
	g_assert_nonnull(tasks);
	g_assert_cmpuint(tasks->len, ==, MOST * N);
	make_threads(f, MOST + 1, words + MOST * N * UINT64_C(8), N);
	assert_list_fails(f, VMS_ERROR_MALFORMED);
}

static void test_running_task_has_no_regs(struct fixture *f, const void *data)
{
	(void)data;
	g_autoptr(GError) error = NULL;
	g_autoptr(GArray) tasks = vms_linux_tasks_list(f->guest, NULL, NULL);
	struct vms_regs regs;
	write_u32(f, TASK(1) + ON_CPU, 1);
	g_assert_false(vms_linux_task_regs(f->guest, &g_array_index(tasks, struct vms_task, 0),
					   &regs, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
}

static void test_wait(struct fixture *f, const void *data)
{
	(void)data;
	struct vms_task_wait wait;
	write_u32(f, TASK(4) + STATE, 2);
	write_u64(f, TASK(4) + VOLUNTARY, 7);
	write_u64(f, TASK(4) + INVOLUNTARY, 3);
	write_u32(f, TASK(4) + WAKE_CPU, 2);
	g_assert_true(vms_linux_task_wait(f->guest, TASK(4), &wait));
	g_assert_cmpuint(wait.pid, ==, 1);
	g_assert_cmpuint(wait.tid, ==, 4);
	g_assert_cmpint(wait.state, ==, 'D');
	g_assert_false(wait.is_on_cpu);
	g_assert_cmpuint(wait.switches, ==, 10);
	g_assert_cmpuint(wait.cpu, ==, 2);
	write_u32(f, TASK(4) + ON_CPU, 1);
	g_assert_true(vms_linux_task_wait(f->guest, TASK(4), &wait));
	g_assert_true(wait.is_on_cpu);
	g_assert_false(vms_linux_task_wait(f->guest, 8, &wait)); /* cannot be read */
	g_assert_true(vms_linux_is_sleep_code(f->guest, SLEEP));
	g_assert_true(vms_linux_is_sleep_code(f->guest, SLEEP + 0xff));
	g_assert_false(vms_linux_is_sleep_code(f->guest, SLEEP - 1));
	g_assert_false(vms_linux_is_sleep_code(f->guest, SLEEP + 0x100));
	g_assert_false(vms_linux_is_sleep_code(f->guest, 0)); /* the other bounds are unknown */
}

/* ---- vCPUs of core files ---- */

/* A core file's vCPU 0 in the kernel, 1 in a user program; nothing else is known of them. */
static void setup_core(struct fixture *f)
{
	static const uint64_t modes[] = { KERNEL_CS, USER_CS };
	const struct vms_regs own = { 0 };
	struct vms_regs regs = own;
	vms_regs_set(&regs, CR3, BASE + 0x7000);
	vms_memory_set_regs(f->guest->memory, &regs);
	for (unsigned vcpu = 0; vcpu < G_N_ELEMENTS(modes); vcpu++) {
		*fake_machine_regs(f->machine, vcpu) = own;
		vms_regs_set(fake_machine_regs(f->machine, vcpu), CS, modes[vcpu]);
	}
	write_u64(f, NOTES, NOTE);
	write_u64(f, MM, PGD);
}

static struct vms_regs machine_regs(struct fixture *f, unsigned vcpu)
{
	struct vms_regs regs;
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
	g_assert_true(vms_machine_regs(f->machine, vcpu, &regs, NULL));
	g_assert_true(vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL));
	return regs;
}

static void assert_cpu(struct fixture *f, unsigned vcpu, unsigned base_reg, unsigned cpu,
		       uint64_t root)
{
	struct vms_regs regs = machine_regs(f, vcpu);
	g_assert_true(vms_regs_have(&regs, base_reg));
	g_assert_cmphex(regs.value[base_reg], ==, PERCPU(cpu));
	g_assert_false(vms_regs_have(&regs, base_reg == GS_BASE ? K_GS_BASE : GS_BASE));
	g_assert_true(vms_regs_have(&regs, CR3));
	g_assert_cmphex(regs.value[CR3], ==, root);
}

/* CPUs 0 and 2 did not answer when the kernel crashed. */
static void test_vcpus_by_notes(struct fixture *f, const void *data)
{
	(void)data;
	setup_core(f);
	write_u64(f, ONLINE, 0xf);
	write_u64(f, PERCPU(3) + CURRENT, TASK(0));
	write_u32(f, PERCPU(1) + NOTE, 5);
	write_u32(f, PERCPU(3) + NOTE, 5);
	vms_linux_complete_vcpus(f->guest);
	assert_cpu(f, 0, GS_BASE, 1, PGD);
	assert_cpu(f, 1, K_GS_BASE, 3, BASE + 0x7000); /* idle: the kernel's own page tables */
}

/* The kernel did not write the file: all CPUs that are online are in it. */
static void test_vcpus_online(struct fixture *f, const void *data)
{
	(void)data;
	setup_core(f);
	write_u64(f, ONLINE, 0x5);
	vms_linux_complete_vcpus(f->guest);
	assert_cpu(f, 0, GS_BASE, 0, BASE + 0x7000);
	assert_cpu(f, 1, K_GS_BASE, 2, PGD);
}

/* What the file says is not touched; what cannot be told is not invented. */
static void test_vcpus_known_and_unknown(struct fixture *f, const void *data)
{
	(void)data;
	setup_core(f);
	vms_regs_set(fake_machine_regs(f->machine, 0), CR3, 0x1000);
	vms_linux_complete_vcpus(f->guest);
	struct vms_regs known = machine_regs(f, 0), unknown = machine_regs(f, 1);
	g_assert_cmphex(known.value[CR3], ==, 0x1000);
	g_assert_false(vms_regs_have(&known, GS_BASE));
	g_assert_cmphex(unknown.value[CR3], ==, BASE + 0x7000);
	g_assert_false(vms_regs_have(&unknown, K_GS_BASE));
}

static void test_cpus(struct fixture *f, const void *data)
{
	(void)data;
	g_assert_cmpuint(vms_linux_cpus(f->guest), ==, CPUS);
	write_u32(f, NR_CPUS, UINT32_MAX); /* more than Linux can have */
	g_assert_cmpuint(vms_linux_cpus(f->guest), ==, 8192);
}

static void test_no_types(struct fixture *f, const void *data)
{
	(void)data;
	g_autoptr(GError) error = NULL;
	struct vms_regs regs = { 0 };
	struct vms_task task;
	vms_linux_tasks_free(g_steal_pointer(&f->guest->tasks));
	g_assert_null(vms_linux_tasks_list(f->guest, NULL, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	g_assert_false(vms_linux_current(f->guest, f->guest->memory, &regs, &task));
}

/* Makes each of `n` words a node of the list of processes, and of each one's list of threads. */
static void flood(struct fixture *f, uint64_t n)
{
	const uint64_t begin = BASE + RAM + 0x1000;
	fake_machine_add_ram(f->machine, begin, (n + 1) * sizeof(uint64_t));
	for (uint64_t i = 0; i < n; i++)
		write_u64(f, begin + i * 8, begin + (i + 1) * 8);
	write_u64(f, TASK(0) + TASKS, begin + 0x100);
}

static struct vms_budget *set_budget(struct fixture *f, const struct vms_budget_options *options)
{
	f->guest->budget = vms_budget_new(options, NULL);
	vms_memory_set_budget(f->guest->memory, f->guest->budget);
	return f->guest->budget;
}

static uint64_t count_steps_of_flood(uint64_t n)
{
	struct fixture f;
	setup(&f, NULL);
	flood(&f, n);
	struct vms_budget *budget = set_budget(&f, NULL);
	g_autoptr(GError) loss = NULL;
	g_autoptr(GArray) tasks = vms_linux_tasks_list(f.guest, &loss, NULL);
	g_assert_cmpuint(tasks->len, >, n / 2);
	g_assert_nonnull(loss);
	const uint64_t steps = vms_budget_spent(budget, VMS_BUDGET_STEPS);
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_ITEMS), ==, 0); /* given back */
	teardown(&f, NULL);
	return steps;
}

/* Twice as many words cost twice as much. */
static void test_flood(void)
{
	const uint64_t once = count_steps_of_flood(2000), twice = count_steps_of_flood(4000);
	g_assert_cmpuint(twice, <, once * 23 / 10);
	g_assert_cmpuint(twice, >, once * 17 / 10);
}

/* A list that is cut off by the budget says so. */
static void test_flood_beyond_budget(struct fixture *f, const void *data)
{
	const struct vms_budget_options few_steps = { .size = sizeof(few_steps),
						      .processor_ns = 200000 * VMS_BUDGET_STEP_NS };
	(void)data;
	flood(f, 10000);
	struct vms_budget *budget = set_budget(f, &few_steps);
	g_autoptr(GError) loss = NULL;
	g_autoptr(GArray) tasks = vms_linux_tasks_list(f->guest, &loss, NULL);
	g_assert_cmpuint(tasks->len, >, 10);
	g_assert_cmpuint(tasks->len, <, 5000);
	g_assert_error(loss, VMS_ERROR, VMS_ERROR_BUDGET);
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_STEPS), <=, 200000);
}

static void test_flood_beyond_items(struct fixture *f, const void *data)
{
	const struct vms_budget_options few_items = { .size = sizeof(few_items), .items = 50 };
	(void)data;
	flood(f, 10000);
	struct vms_budget *budget = set_budget(f, &few_items);
	g_autoptr(GError) loss = NULL;
	g_autoptr(GArray) tasks = vms_linux_tasks_list(f->guest, &loss, NULL);
	g_assert_cmpuint(tasks->len, ==, 50);
	g_autofree char *cuts = vms_budget_describe_losses(budget);
	g_assert_cmpstr(cuts, ==, "all: more than 50 entries");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add(path, struct fixture, NULL, setup, test, teardown)
	ADD("/task/list", test_list);
	ADD("/task/damaged-lists", test_damaged_lists);
	ADD("/task/layout", test_layout);
	ADD("/task/has", test_has);
	ADD("/task/states", test_states);
	ADD("/task/current", test_current);
	ADD("/task/switch", test_switch);
	ADD("/task/enter-process", test_enter_process);
	ADD("/task/enter-new-program", test_enter_new_program);
	ADD("/task/record", test_record);
	ADD("/task/hostile-lists", test_hostile_lists);
	g_test_add_func("/task/flood", test_flood);
	ADD("/task/flood-beyond-budget", test_flood_beyond_budget);
	ADD("/task/flood-beyond-items", test_flood_beyond_items);
	if (g_test_slow())
		ADD("/task/many-threads", test_many_threads);
	ADD("/task/wait", test_wait);
	ADD("/task/running-task-has-no-regs", test_running_task_has_no_regs);
	ADD("/task/vcpus-by-notes", test_vcpus_by_notes);
	ADD("/task/vcpus-online", test_vcpus_online);
	ADD("/task/vcpus-known-and-unknown", test_vcpus_known_and_unknown);
	ADD("/task/cpus", test_cpus);
	ADD("/task/no-types", test_no_types);
	return g_test_run();
}
