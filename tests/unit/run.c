/* SPDX-License-Identifier: MIT */
/* Runs of a machine whose vCPUs never wait: what they sample, and when they end. */
#include "sample/run.h"
#include "arch/x86_64.h"
#include "base/clock.h"
#include "fake_machine.h"
#include "guest/guest-private.h"

#define CODE	0x100000
#define STACK	0x8000
#define SAMPLES 50
/* A machine that does not answer delays the end by a second. */
#define GRACE_NS UINT64_C(1000000000)

struct fixture {
	struct vms_machine *machine;
	struct vms_guest guest;
	uint64_t n; /* atomic: times that registers were asked for */
};

/* Goes on at once; each time another function has called, on another part of the stack. */
static bool regs(void *data, unsigned vcpu, GError **error G_GNUC_UNUSED)
{
	struct fixture *f = data;
	struct vms_regs *regs = fake_machine_regs(f->machine, vcpu);
	uint64_t frame = STACK + __atomic_add_fetch(&f->n, 1, __ATOMIC_RELAXED) % 8 * 0x200;
	vms_regs_set(regs, RIP, CODE);
	vms_regs_set(regs, CS, 0x10);
	vms_regs_set(regs, RSP, frame);
	vms_regs_set(regs, RBP, frame + 0x10);
	fake_machine_write_u64(f->machine, frame + 0x18, CODE + 0x100);
	fake_machine_go_on(f->machine);
	return true;
}

static void ended(enum vms_sample_end end G_GNUC_UNUSED, GError *error, void *data G_GNUC_UNUSED)
{
	g_assert_no_error(error);
	g_assert_not_reached();
}

static struct vms_run_options options_of(struct fixture *f, uint64_t interval_ns)
{
	return (struct vms_run_options) { .machine = f->machine,
					  .guest = &f->guest,
					  .interval_ns = interval_ns,
					  .depth = 16,
					  .ended = ended };
}

static struct vms_sample_stats sample(struct fixture *f)
{
	const struct vms_run_options options = options_of(f, 100000);
	struct vms_sample_stats stats;
	g_autoptr(vms_run) run = vms_run_new(&options, NULL);
	g_assert_true(vms_run_begin(run, vms_clock_now_ns(), 0, NULL));
	do {
		g_usleep(1000);
		vms_samples_stats(&run->vcpus[0], &stats);
	} while (stats.samples < SAMPLES && stats.failed[VMS_SAMPLE_FAIL_TORN] == 0);
	vms_run_stop(run);
	vms_run_join(run);
	vms_samples_stats(&run->vcpus[0], &stats);
	return stats;
}

static void set_up(struct fixture *f)
{
	*f = (struct fixture) { .machine = fake_machine_new(&vms_arch_x86_64, 1) };
	f->guest = (struct vms_guest) { .machine = f->machine, .symbolizer = vms_symbolizer_new() };
	g_atomic_ref_count_init(&f->guest.refs);
	fake_machine_set_brief_holds(f->machine);
	fake_machine_set_hooks(f->machine, &(struct fake_hooks) { .regs = regs, .data = f });
	fake_machine_add_ram(f->machine, CODE, 0x1000);
	fake_machine_add_ram(f->machine, STACK, 0x2000);
}

static void tear_down(struct fixture *f)
{
	vms_symbolizer_unref(f->guest.symbolizer);
	vms_machine_unref(f->machine);
}

/* Samples by brief holds: each is taken, and none is of two moments. */
static void test_late(void)
{
	struct fixture f;
	set_up(&f);
	struct vms_sample_stats stats = sample(&f);
	for (int i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		g_assert_cmpuint(stats.failed[i], ==, 0);
	g_assert_cmpuint(f.n, >=, stats.samples + SAMPLES); /* brief holds, and then others */
	tear_down(&f);
}

static uint64_t count_ticks(struct vms_run *run)
{
	struct vms_sample_stats stats;
	vms_run_stats(run, 0, &stats);
	uint64_t ticks = stats.samples + stats.missed;
	for (int i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		ticks += stats.failed[i];
	return ticks;
}

/* A run ends when its time is over, however late it is stopped. */
static void test_end(void)
{
	enum { TICKS = 5, INTERVAL_NS = 1000000 };
	struct fixture f;
	set_up(&f);
	const struct vms_run_options options = options_of(&f, INTERVAL_NS);
	g_autoptr(vms_run) run = vms_run_new(&options, NULL);
	const uint64_t begin_ns = vms_clock_now_ns(), end_ns = begin_ns + TICKS * INTERVAL_NS;
	g_assert_true(vms_run_begin(run, begin_ns, TICKS * INTERVAL_NS, NULL));
	while (vms_clock_now_ns() < end_ns + TICKS * INTERVAL_NS)
		g_usleep(1000);
	g_assert_cmpuint(count_ticks(run), ==,
			 TICKS); /* its time is over, but nobody has told it */
	g_assert_cmpuint(vms_run_stop(run), ==, end_ns);
	g_assert_cmpuint(fake_machine_give_up_ns(f.machine), ==, end_ns + GRACE_NS);
	g_assert_cmpuint(vms_run_stop(run), ==, end_ns);
	vms_run_join(run);
	g_assert_cmpuint(count_ticks(run), ==, TICKS);
	tear_down(&f);
}

/* One that is stopped before has ended then, and its ticks are those up to that moment. */
static void test_stop(void)
{
	enum { INTERVAL_NS = 1000000 };
	struct fixture f;
	set_up(&f);
	const struct vms_run_options options = options_of(&f, INTERVAL_NS);
	g_autoptr(vms_run) run = vms_run_new(&options, NULL);
	const uint64_t begin_ns = vms_clock_now_ns();
	g_assert_true(vms_run_begin(run, begin_ns, UINT64_C(3600000000000), NULL));
	while (__atomic_load_n(&f.n, __ATOMIC_RELAXED) == 0)
		g_usleep(1000);
	const uint64_t before_ns = vms_clock_now_ns(), end_ns = vms_run_stop(run);
	g_assert_cmpuint(end_ns, >=, before_ns);
	g_assert_cmpuint(end_ns, <=, vms_clock_now_ns());
	vms_run_join(run);
	g_assert_cmpuint(count_ticks(run), ==, 1 + (end_ns - begin_ns) / INTERVAL_NS);
	g_assert_cmpuint(vms_run_stop(run), ==, end_ns);
	tear_down(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/run/late", test_late);
	g_test_add_func("/run/end", test_end);
	g_test_add_func("/run/stop", test_stop);
	return g_test_run();
}
