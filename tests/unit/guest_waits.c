/* SPDX-License-Identifier: MIT */
/* Threads that wait: which samples are given of one that stays, that runs, and that changes. */
#include "sample/guest_waits.h"
#include "arch/x86_64.h"
#include "capture/capture.h"
#include "fake_machine.h"
#include "guest/guest-private.h"

#define TASK	 UINT64_C(0x1000)
#define SCHEDULE UINT64_C(0xffffffff81000000)
#define PIPE	 UINT64_C(0xffffffff82000000)
#define PERIOD	 100

/* How the only thread is found. */
static struct vms_task_wait wait;
static unsigned reads, runs_at_read, captures; /* it runs for a moment before that read; 0: never */

static bool task_wait(void *system G_GNUC_UNUSED, uint64_t task, struct vms_task_wait *ret)
{
	g_assert_cmphex(task, ==, TASK);
	wait.switches += ++reads == runs_at_read;
	*ret = wait;
	return true;
}

static bool task_regs(void *system G_GNUC_UNUSED, const struct vms_task *task G_GNUC_UNUSED,
		      struct vms_regs *ret, GError **error G_GNUC_UNUSED)
{
	*ret = (struct vms_regs) { 0 };
	return true;
}

static bool task_has(void *system G_GNUC_UNUSED, uint64_t task G_GNUC_UNUSED,
		     uint32_t pid G_GNUC_UNUSED, uint64_t mm)
{
	return mm == 0;
}

static bool is_sleep_code(const void *system G_GNUC_UNUSED, uint64_t pc)
{
	return pc >= SCHEDULE && pc < PIPE;
}

/* Takes the place of the library's. The stack says how often it was read. */
void vms_capture_stack(struct vms_guest *guest G_GNUC_UNUSED,
		       struct vms_memory *memory G_GNUC_UNUSED,
		       const struct vms_process *process G_GNUC_UNUSED,
		       const struct vms_regs *regs G_GNUC_UNUSED, unsigned depth G_GNUC_UNUSED,
		       struct vms_stack *ret, struct vms_user_copy *copy G_GNUC_UNUSED)
{
	*ret = (struct vms_stack) { .n = 3, .n_kernel = 3 };
	ret->frame[0].pc = SCHEDULE;
	ret->frame[1].pc = PIPE; /* a call was the last instruction of schedule */
	ret->frame[1].is_return = true;
	ret->frame[2].pc = PIPE + ++captures;
}

void vms_capture_finish(struct vms_guest *guest G_GNUC_UNUSED,
			struct vms_memory *memory G_GNUC_UNUSED, unsigned depth G_GNUC_UNUSED,
			struct vms_user_copy *copy G_GNUC_UNUSED,
			struct vms_stack *stack G_GNUC_UNUSED)
{
}

bool vms_capture_vcpu(struct vms_machine *machine G_GNUC_UNUSED,
		      struct vms_guest *guest G_GNUC_UNUSED,
		      struct vms_memory *memory G_GNUC_UNUSED, unsigned vcpu G_GNUC_UNUSED,
		      unsigned depth G_GNUC_UNUSED, struct vms_sample_record *ret G_GNUC_UNUSED,
		      struct vms_user_copy *copy G_GNUC_UNUSED, GError **error G_GNUC_UNUSED)
{
	g_assert_not_reached(); /* the run does not begin */
}

static const struct vms_guest_ops ops = { .kind = VMS_GUEST_LINUX,
					  .task_wait = task_wait,
					  .task_regs = task_regs,
					  .task_has = task_has,
					  .is_sleep_code = is_sleep_code };

struct fixture {
	struct vms_machine *machine;
	struct vms_symbolizer *symbolizer;
	struct vms_guest guest;
	struct vms_run *run;
	struct vms_guest_waits *waits;
	GString *given;
	uint64_t begin_ns; /* of the last sample */
};

static void set_threads(struct fixture *f, uint64_t mm)
{
	const struct vms_task task = { .va = TASK, .pid = 7, .tid = 8, .mm = mm };
	g_autoptr(GArray) tasks = g_array_new(FALSE, FALSE, sizeof(task));
	g_array_append_val(tasks, task);
	vms_guest_waits_set_threads(f->waits, tasks);
}

static void setup(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	wait = (struct vms_task_wait) { .pid = 7, .tid = 8, .state = 'S', .switches = 5, .cpu = 1 };
	reads = runs_at_read = captures = 0;
	f->machine = fake_machine_new(&vms_arch_x86_64, 2);
	f->symbolizer = vms_symbolizer_new();
	f->guest = (struct vms_guest) {
		.machine = f->machine, .ops = &ops, .system = f, .symbolizer = f->symbolizer
	};
	g_atomic_ref_count_init(&f->guest.refs);
	const struct vms_run_options options = {
		.machine = f->machine, .guest = &f->guest, .interval_ns = PERIOD, .depth = 16
	};
	f->run = vms_run_new(&options, NULL);
	f->waits = vms_guest_waits_new(f->run);
	f->given = g_string_new(NULL);
	set_threads(f, 0);
}

static void teardown(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	vms_guest_waits_free(f->waits);
	vms_run_unref(f->run);
	vms_symbolizer_unref(f->symbolizer);
	vms_machine_unref(f->machine);
	g_string_free(f->given, TRUE);
}

/* "STATE STACK FRAME ", and before that the time if nobody looked then. */
static void give(const struct vms_sample_record *sample, uint64_t begin_ns, void *data)
{
	struct fixture *f = data;
	f->begin_ns = begin_ns;
	g_assert_cmpuint(sample->pid, ==, 7);
	g_assert_cmpuint(sample->tid, ==, 8);
	g_assert_cmpuint(sample->vcpu, ==, wait.cpu);
	if (sample->time_ns != begin_ns)
		g_string_append_printf(f->given, "%" G_GUINT64_FORMAT ":", sample->time_ns);
	g_string_append_printf(f->given, "%c%" G_GUINT64_FORMAT "%s ", sample->waits,
			       sample->stack.frame[2].pc - PIPE,
			       sample->wait_frame == 2			 ? "!"
			       : sample->wait_frame == VMS_NO_WAIT_FRAME ? "?"
									 : "");
}

static void assert_given(struct fixture *f, uint64_t skipped, const char *expected, uint64_t missed)
{
	const struct vms_guest_wait_tick tick = { 1000, skipped, PERIOD, NULL };
	struct vms_guest_wait_counts counts;
	g_string_set_size(f->given, 0);
	vms_guest_waits_sample(f->waits, &tick, give, f, &counts);
	g_assert_cmpstr(f->given->str, ==, expected);
	g_assert_cmpuint(counts.missed, ==, missed);
}

/* One that has not run has the same stack, at the ticks between, too. It is read once. */
static void test_stays(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	assert_given(f, 0, "S1! ", 0);
	assert_given(f, 2, "800:S1! 900:S1! S1! ", 0);
	wait.state = 'R'; /* it was woken, and waits for a CPU */
	assert_given(f, 0, "R1? ", 0);
	set_threads(f, 0);
	assert_given(f, 0, "R1? ", 0);
	g_assert_cmpuint(captures, ==, 1);
}

static void test_has_run(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	assert_given(f, 3, "S1! ", 3);
	wait.is_on_cpu = true;
	assert_given(f, 1, "", 0);
	wait.is_on_cpu = false;
	wait.switches++;
	assert_given(f, 2, "S2! ", 2);
	wait.state = 'Z';
	assert_given(f, 0, "", 0);
}

/* It runs between the two reads of its state: the stack may be of two moments. */
static void test_runs_meanwhile(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	runs_at_read = 2;
	assert_given(f, 0, "", 1);
	assert_given(f, 0, "S2! ", 0);
}

/* The thread has another program, or the address belongs to another thread. */
static void test_changes(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	assert_given(f, 0, "S1! ", 0);
	set_threads(f, 0x5000);
	assert_given(f, 0, "", 1);
	set_threads(f, 0);
	wait.tid = 9;
	assert_given(f, 0, "", 1);
	wait.tid = 8;
	wait.cpu = 0;
	assert_given(f, 0, "S3! ", 0);
}

static void give_times(const struct vms_sample_record *sample, uint64_t begin_ns G_GNUC_UNUSED,
		       void *data)
{
	g_array_append_val((GArray *)data, sample->time_ns);
}

/* At the end, one that has not run has waited since it was looked at; of another nobody knows. */
static void test_ends(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	g_autoptr(GArray) times = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	struct vms_guest_wait_counts counts;
	assert_given(f, 0, "S1! ", 0);
	const uint64_t end_ns = f->begin_ns + 3 * PERIOD + 1;
	vms_guest_waits_finish(f->waits, end_ns, PERIOD, give_times, times, &counts);
	g_assert_cmpuint(counts.taken, ==, 3);
	g_assert_cmpuint(counts.missed, ==, 0);
	g_assert_cmpuint(times->len, ==, 3);
	for (guint i = 0; i < times->len; i++)
		g_assert_cmpuint(g_array_index(times, uint64_t, i), ==,
				 f->begin_ns + (i + 1) * PERIOD);
	g_assert_cmpuint(captures, ==, 1);
	wait.switches++;
	vms_guest_waits_finish(f->waits, end_ns, PERIOD, give_times, times, &counts);
	g_assert_cmpuint(counts.taken, ==, 0);
	g_assert_cmpuint(counts.missed, ==, 3);
	vms_guest_waits_finish(f->waits, f->begin_ns, PERIOD, give_times, times, &counts);
	g_assert_cmpuint(counts.missed, ==, 0);
}

/* Who stops does not wait for thousands of stacks. */
static void test_stops(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	static const int stops = 1;
	const struct vms_guest_wait_tick tick = { 1000, 0, PERIOD, &stops };
	struct vms_guest_wait_counts counts;
	vms_guest_waits_sample(f->waits, &tick, give, f, &counts);
	g_assert_cmpstr(f->given->str, ==, "");
	g_assert_cmpuint(reads, ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add(name, struct fixture, NULL, setup, test, teardown)
	ADD("/guest_waits/stays", test_stays);
	ADD("/guest_waits/has-run", test_has_run);
	ADD("/guest_waits/runs-meanwhile", test_runs_meanwhile);
	ADD("/guest_waits/changes", test_changes);
	ADD("/guest_waits/ends", test_ends);
	ADD("/guest_waits/stops", test_stops);
	return g_test_run();
}
