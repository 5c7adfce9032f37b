/* SPDX-License-Identifier: MIT */
/* Samples by brief holds of vCPUs that never wait: each is taken, and none is of two moments. */
#include "sample/run.h"
#include "arch/x86_64.h"
#include "base/clock.h"
#include "fake_machine.h"
#include "guest/guest-private.h"

#define CODE	0x100000
#define STACK	0x8000
#define SAMPLES 50

struct fixture {
	struct vms_machine *machine;
	uint64_t n; /* times that registers were asked for */
};

/* Goes on at once; each time another function has called, on another part of the stack. */
static bool regs(void *data, unsigned vcpu, GError **error G_GNUC_UNUSED)
{
	struct fixture *f = data;
	struct vms_regs *regs = fake_machine_regs(f->machine, vcpu);
	uint64_t frame = STACK + ++f->n % 8 * 0x200;
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

static struct vms_sample_stats sample(struct fixture *f, struct vms_guest *guest)
{
	const struct vms_run_options options = { .machine = f->machine,
						 .guest = guest,
						 .interval_ns = 100000,
						 .depth = 16,
						 .ended = ended };
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

static void test_late(void)
{
	struct fixture f = { .machine = fake_machine_new(&vms_arch_x86_64, 1) };
	g_autoptr(vms_symbolizer) symbolizer = vms_symbolizer_new();
	struct vms_guest guest = { .machine = f.machine, .symbolizer = symbolizer };
	g_atomic_ref_count_init(&guest.refs);
	fake_machine_set_brief_holds(f.machine);
	fake_machine_set_hooks(f.machine, &(struct fake_hooks) { .regs = regs, .data = &f });
	fake_machine_add_ram(f.machine, CODE, 0x1000);
	fake_machine_add_ram(f.machine, STACK, 0x2000);
	struct vms_sample_stats stats = sample(&f, &guest);
	for (int i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		g_assert_cmpuint(stats.failed[i], ==, 0);
	g_assert_cmpuint(f.n, >=, stats.samples + SAMPLES); /* brief holds, and then others */
	vms_machine_unref(f.machine);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/run/late", test_late);
	return g_test_run();
}
