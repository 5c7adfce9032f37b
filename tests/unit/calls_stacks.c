/* SPDX-License-Identifier: MIT */
/*
 * Open calls of stacks laid out by hand: x86-64 stacks whose return addresses the test has put
 * where the slots must be, by the rules of frame pointers.
 */
#include "arch/x86_64.h"
#include "calls/stacks.h"
#include "fake_linux.h"
#include "guest/guest-private.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/operations.h"
#include "guest/linux/task-private.h"
#include "machine/agent/protocol.h"

#define TEXT	   UINT64_C(0xffffffff81000000)
#define TEXT_END   (TEXT + 0x10000)
#define FUNCTION   0x100
#define DATA	   UINT64_C(0xffff888000000000)
#define TASK(i)	   (DATA + 0x1000 + (i)*0x100)
#define SIGNAL(i)  (DATA + 0x4000 + (i)*0x40)
#define STACKS	   UINT64_C(0xffffc90000010000)
#define STACK_SIZE 0x4000
#define STACK(i)   (STACKS + (i)*STACK_SIZE)
#define USER_STACK UINT64_C(0x00007ffd00000000)
#define USER_CODE  UINT64_C(0x0000555555555000)
#define USER_CS	   0x33
#define KERNEL_CS  0x10

enum { SWITCH, FORKED, SCHEDULE, THREAD, ENTRY, CALLED, N_FUNCTIONS };

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *linux_guest;
	struct vms_guest guest;
};

static uint64_t function(unsigned n)
{
	return TEXT + n * FUNCTION;
}

/* Behind a call in it. */
static uint64_t in_function(unsigned n)
{
	return function(n) + 0x24;
}

static void put_word(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

/* Members of this kernel's structures. */
static const struct vms_linux_tasks layout = {
	.arch = &vms_task_arch_x86_64,
	.init_task = TASK(0),
	.current = DATA + 0x6000,
	.pid = { .offset = 0, .size = 4, .is_there = true },
	.tgid = { .offset = 4, .size = 4, .is_there = true },
	.mm = { .offset = 8, .size = 8, .is_there = true },
	.comm = { .offset = 16, .size = 16, .is_there = true },
	.exit_state = { .offset = 32, .size = 4, .is_there = true },
	.state = { .offset = 36, .size = 4, .is_there = true },
	.real_parent = { .offset = 40, .size = 8, .is_there = true },
	.group_leader = { .offset = 48, .size = 8, .is_there = true },
	.signal = { .offset = 56, .size = 8, .is_there = true },
	.tasks = { .offset = 64, .size = 16, .is_there = true },
	.thread_node = { .offset = 80, .size = 16, .is_there = true },
	.on_cpu = { .offset = 96, .size = 4, .is_there = true },
	.thread_sp = { .offset = 104, .size = 8, .is_there = true },
	.thread_head = { .offset = 0, .size = 16, .is_there = true },
	.pgd = { .offset = 0, .size = 8, .is_there = true },
	.frame_r15 = { .offset = 0, .size = 8, .is_there = true },
	.frame_r14 = { .offset = 8, .size = 8, .is_there = true },
	.frame_r13 = { .offset = 16, .size = 8, .is_there = true },
	.frame_r12 = { .offset = 24, .size = 8, .is_there = true },
	.frame_bx = { .offset = 32, .size = 8, .is_there = true },
	.frame_bp = { .offset = 40, .size = 8, .is_there = true },
	.frame_return = { .offset = 48, .size = 8, .is_there = true },
};

static void put_half(struct fixture *f, uint64_t va, uint32_t value)
{
	memcpy(fake_machine_at(f->machine, va), &value, sizeof(value));
}

/* A process of one thread, in the list before what is in it. */
static void add_task(struct fixture *f, unsigned i)
{
	const uint64_t task = TASK(i), list = TASK(0) + layout.tasks.offset;
	uint64_t next;
	memcpy(&next, fake_machine_at(f->machine, list), sizeof(next));
	put_half(f, task + layout.pid.offset, i);
	put_half(f, task + layout.tgid.offset, i);
	put_word(f, task + layout.real_parent.offset, TASK(0));
	put_word(f, task + layout.group_leader.offset, task);
	put_word(f, task + layout.signal.offset, SIGNAL(i));
	put_word(f, task + layout.thread_node.offset, SIGNAL(i));
	put_word(f, SIGNAL(i), task + layout.thread_node.offset);
	put_word(f, task + layout.tasks.offset, next);
	put_word(f, list, task + layout.tasks.offset);
}

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const names[N_FUNCTIONS] = { "__switch_to_asm", "ret_from_fork",
							"schedule",	   "thread",
							"entry",	   "called" };
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, DATA, 0x8000);
	fake_machine_add_ram(f->machine, STACKS, 4 * STACK_SIZE);
	fake_machine_add_ram(f->machine, USER_STACK, STACK_SIZE);
	f->linux_guest = fake_linux_new(f->machine, &(struct fake_symbol) { NULL, 0 }, NULL);
	vms_symbol_table_unref(f->linux_guest->symbols);
	f->linux_guest->symbols = vms_symbol_table_new("vmlinux");
	for (unsigned i = 0; i < N_FUNCTIONS; i++)
		vms_symbol_table_add(f->linux_guest->symbols, names[i], function(i), FUNCTION, 't');
	vms_symbol_table_finish(f->linux_guest->symbols, TEXT_END);
	f->linux_guest->image = f->linux_guest->text[0].begin = TEXT;
	f->linux_guest->image_end = f->linux_guest->text[0].end = TEXT_END;
	vms_linux_map_image(f->linux_guest);
	f->linux_guest->tasks = g_memdup2(&layout, sizeof(layout));
	f->guest = (struct vms_guest) {
		.machine = f->machine,
		.ops = &vms_linux_ops,
		.system = f->linux_guest,
		.symbolizer = f->linux_guest->symbolizer,
	};
	put_word(f, TASK(0) + layout.tasks.offset, TASK(0) + layout.tasks.offset);
	put_word(f, layout.current, 0);
	vms_regs_set(fake_machine_regs(f->machine, 0), CS, KERNEL_CS);
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_assert_true(vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL));
	vms_linux_free(f->linux_guest);
	vms_machine_unref(f->machine);
}

/* ---- stacks ------------------------------------------------------------ */

/* What a switch away from task `i` leaves, below `sp`; it will return to `pc`. */
static void put_switched(struct fixture *f, unsigned i, uint64_t sp, uint64_t bp, uint64_t pc)
{
	const uint64_t frame = sp - 56;
	put_word(f, TASK(i) + layout.thread_sp.offset, frame);
	put_word(f, frame + layout.frame_bp.offset, bp);
	put_word(f, frame + layout.frame_return.offset, pc);
}

/* Takes the next stack out of `bytes` and compares it. */
static void check_stack(GByteArray *bytes, uint64_t task, uint32_t vcpu, unsigned n,
			const struct vms_agent_frame *expected)
{
	struct vms_agent_stack stack;
	struct vms_agent_frame frame;
	g_assert_cmpuint(bytes->len, >=, sizeof(stack) + n * sizeof(frame));
	memcpy(&stack, bytes->data, sizeof(stack));
	g_assert_cmphex(stack.task, ==, task);
	g_assert_cmpuint(stack.vcpu, ==, vcpu);
	g_assert_cmpuint(stack.n, ==, n);
	for (unsigned i = 0; i < n; i++) {
		memcpy(&frame, bytes->data + sizeof(stack) + i * sizeof(frame), sizeof(frame));
		g_assert_cmphex(frame.slot, ==, expected[i].slot);
		g_assert_cmphex(frame.function, ==, expected[i].function);
		g_assert_cmpuint(frame.is_user, ==, expected[i].is_user);
	}
	g_byte_array_remove_range(bytes, 0, (guint)(sizeof(stack) + n * sizeof(frame)));
}

static GByteArray *stacks(struct fixture *f)
{
	GError *error = NULL;
	GByteArray *bytes =
		vms_calls_list_stacks(&f->guest, vms_calls_abi_of(&vms_arch_x86_64), &error);
	g_assert_no_error(error);
	return bytes;
}

/*
 * The vCPU is in a system call of a user program; tasks 1 and 2 wait, 2 has never run, and 3 is
 * what the vCPU runs.
 */
static void test_all(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_regs *regs = fake_machine_regs(f->machine, 0);
	const uint64_t bp = STACK(3) + 0x1040, pt_regs = bp + 16, user_bp = USER_STACK + 0x180;
	for (unsigned i = 1; i <= 3; i++)
		add_task(f, i);
	/* called() in entry code in the user's function, which another has called */
	vms_regs_set(regs, RIP, in_function(CALLED));
	vms_regs_set(regs, RSP, STACK(3) + 0x1000);
	vms_regs_set(regs, RBP, bp);
	put_word(f, bp, 0);
	put_word(f, bp + 8, in_function(ENTRY));
	put_word(f, pt_regs + 4 * 8, user_bp);
	put_word(f, pt_regs + 16 * 8, USER_CODE);
	put_word(f, pt_regs + 17 * 8, USER_CS);
	put_word(f, pt_regs + 19 * 8, USER_STACK + 0x100);
	put_word(f, user_bp + 8, USER_CODE + 0x200);
	put_word(f, layout.current, TASK(3));
	put_half(f, TASK(3) + layout.on_cpu.offset, 1);
	/* thread() has called schedule(), and that switched */
	put_switched(f, 1, STACK(1) + 0x1000, STACK(1) + 0x1040, in_function(SCHEDULE));
	put_word(f, STACK(1) + 0x1040, STACK(1) + 0x1080);
	put_word(f, STACK(1) + 0x1048, in_function(THREAD));
	put_word(f, STACK(1) + 0x1088, 0);
	put_switched(f, 2, STACK(2) + 0x1000, 0, function(FORKED));

	g_autoptr(GByteArray) bytes = stacks(f);
	check_stack(bytes, TASK(3), 0, 4,
		    (const struct vms_agent_frame[]) {
			    { USER_STACK + 0x190, USER_CODE + 0x200, 1 },
			    { user_bp + 8, USER_CODE, 1 },
			    { pt_regs + 15 * 8, function(ENTRY), 0 },
			    { bp + 8, function(CALLED), 0 },
		    });
	check_stack(bytes, TASK(1), UINT32_MAX, 3,
		    (const struct vms_agent_frame[]) {
			    { STACK(1) + 0x1050, function(THREAD), 0 },
			    { STACK(1) + 0x1048, function(SCHEDULE), 0 },
			    { STACK(1) + 0x1000 - 8, function(SWITCH), 0 },
		    });
	g_assert_cmpuint(bytes->len, ==, 0);
}

/* Nothing is known of tasks: what the vCPU runs is all there is. */
static void test_no_tasks(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_regs *regs = fake_machine_regs(f->machine, 0);
	vms_linux_tasks_free(g_steal_pointer(&f->linux_guest->tasks));
	vms_regs_set(regs, RIP, in_function(CALLED));
	vms_regs_set(regs, RSP, STACK(3) + 0x1000);
	vms_regs_set(regs, RBP, STACK(3) + 0x1040);
	put_word(f, STACK(3) + 0x1048, in_function(THREAD));
	g_autoptr(GByteArray) bytes = stacks(f);
	check_stack(bytes, 0, 0, 2,
		    (const struct vms_agent_frame[]) {
			    { STACK(3) + 0x1050, function(THREAD), 0 },
			    { STACK(3) + 0x1048, function(CALLED), 0 },
		    });
	g_assert_cmpuint(bytes->len, ==, 0);
}

/* On aarch64 a slot is the stack pointer at the call, and entry code calls with its own. */
static void test_aarch64(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_stack walked = {
		.n = 3,
		.frame = {
			{ .pc = in_function(CALLED), .sp = STACK(1) },
			{ .pc = in_function(ENTRY), .sp = STACK(1) + 0x40, .is_return = true },
			{ .pc = in_function(THREAD), .sp = STACK(1) + 0x200 },
		},
	};
	static const struct vms_agent_frame expected[] = {
		{ STACK(1) + 0x200, TEXT + THREAD * FUNCTION, 0 },
		{ STACK(1) + 0x50, TEXT + ENTRY * FUNCTION, 0 },
		{ STACK(1) + 0x40, TEXT + CALLED * FUNCTION, 0 },
	};
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	vms_calls_append_frames(&f->guest, vms_calls_abi_of(&vms_arch_aarch64), &walked, bytes);
	g_assert_cmpmem(bytes->data, bytes->len, expected, sizeof(expected));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add(path, struct fixture, NULL, set_up, test, tear_down)
	ADD("/calls_stacks/all", test_all);
	ADD("/calls_stacks/no-tasks", test_no_tasks);
	ADD("/calls_stacks/aarch64", test_aarch64);
	return g_test_run();
}
