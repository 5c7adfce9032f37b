/* SPDX-License-Identifier: MIT */
#include "arch/x86_64.h"
#include "machine/engine.h"

#define VCPUS 3

/* An engine that counts, and fails when told so. */
struct counting {
	struct vms_machine machine;
	int held[VCPUS + 1]; /* by vCPU; the last is all */
	int fail_hold_of;    /* a vCPU, or INT_MIN */
	bool fail_release;
	unsigned closed;
	unsigned busy; /* so many holds of vCPU 2 find it waiting for another that is held */
	GMutex lock;
	GCond changed;
	int silent;	/* a vCPU that does not answer to being held, or INT_MIN */
	bool asked;	/* has it been asked to? */
	bool timed_out; /* nobody made it answer in time */
	bool is_narrow; /* vCPUs are in 32-bit mode */
	uint64_t rax;
	int asked_for_segments;
	bool fail_segments;
	bool is_refused; /* it must not be held now */
	bool fail_observe;
};

static int *counter(struct vms_machine *machine, int vcpu)
{
	return &((struct counting *)machine)->held[vcpu == VMS_ALL_VCPUS ? VCPUS : vcpu];
}

static void wait_for_answer(struct counting *counting)
{
	gint64 end = g_get_monotonic_time() + 60 * G_TIME_SPAN_SECOND;
	g_mutex_lock(&counting->lock);
	counting->asked = true;
	g_cond_signal(&counting->changed);
	while (counting->silent != INT_MIN && !counting->timed_out)
		counting->timed_out = !g_cond_wait_until(&counting->changed, &counting->lock, end);
	g_mutex_unlock(&counting->lock);
}

static bool hold(struct vms_machine *machine, int vcpu, GError **error)
{
	if (((struct counting *)machine)->silent == vcpu)
		wait_for_answer((struct counting *)machine);
	g_assert_cmpint(*counter(machine, vcpu), ==, 0); /* never nested */
	if (((struct counting *)machine)->fail_hold_of == vcpu) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT, "told so");
		return false;
	}
	if (vcpu == 2 && ((struct counting *)machine)->busy > 0) {
		((struct counting *)machine)->busy--;
		g_set_error(error, VMS_ERROR, VMS_ERROR_WAITING, "told so");
		return false;
	}
	++*counter(machine, vcpu);
	return true;
}

static bool release(struct vms_machine *machine, int vcpu, GError **error)
{
	g_assert_cmpint(--*counter(machine, vcpu), ==, 0);
	if (!((struct counting *)machine)->fail_release)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED, "told so");
	return false;
}

static bool regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	(void)error;
	*ret = (struct vms_regs) { 0 };
	vms_regs_set(ret, RAX, vcpu + ((struct counting *)machine)->rax);
	vms_regs_set(ret, CR0, 0x11);
	vms_regs_set(ret, EFER, ((struct counting *)machine)->is_narrow ? 0 : 0x500);
	return true;
}

static bool system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			GError **error)
{
	(void)vcpu;
	((struct counting *)machine)->asked_for_segments++;
	vms_regs_set(ret, CS_ATTR, 0xc09b);
	if (!((struct counting *)machine)->fail_segments)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL, "told so");
	return false;
}

static bool read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	(void)machine, (void)buf;
	g_assert_true(size == 0 || pa + (size - 1) >= pa);
	return true;
}

static enum vms_machine_end ended(struct vms_machine *machine)
{
	(void)machine;
	return VMS_MACHINE_GOES_ON;
}

static void close_machine(struct vms_machine *machine)
{
	((struct counting *)machine)->closed++;
}

static const struct vms_engine all_at_once = { .hold = hold,
					       .release = release,
					       .regs = regs,
					       .system_regs = system_regs,
					       .read_phys = read_phys,
					       .close = close_machine };
static const struct vms_engine each = { .holds_each = true,
					.hold = hold,
					.release = release,
					.regs = regs,
					.read_phys = read_phys,
					.ended = ended,
					.close = close_machine };

static struct vms_machine *start(struct counting *counting, const struct vms_engine *engine)
{
	*counting = (struct counting) { .fail_hold_of = INT_MIN, .silent = INT_MIN };
	counting->machine.arch = &vms_arch_x86_64;
	counting->machine.n_vcpus = VCPUS;
	counting->machine.info.name = "counting";
	vms_machine_init(&counting->machine, engine);
	return &counting->machine;
}

static void test_nested_holds(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &all_at_once);
	g_autoptr(GError) error = NULL;
	g_assert_true(vms_machine_hold(machine, VMS_ALL_VCPUS, &error));
	g_assert_true(vms_machine_hold(machine, 2, &error));
	g_assert_cmpint(counting.held[VCPUS], ==, 1);
	g_assert_true(vms_machine_release(machine, 2, &error));
	g_assert_cmpint(counting.held[VCPUS], ==, 1);
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	g_assert_cmpint(counting.held[VCPUS], ==, 0);
	g_assert_false(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	vms_machine_unref(machine);
	g_assert_cmpuint(counting.closed, ==, 1);
}

/* Segments are asked for where addresses count from them, and nowhere else. */
static void test_segments(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &all_at_once);
	struct vms_regs regs;
	g_assert_true(vms_machine_hold(machine, VMS_ALL_VCPUS, NULL));
	g_assert_true(vms_machine_regs(machine, 0, &regs, NULL));
	g_assert_cmpint(counting.asked_for_segments, ==, 0);
	counting.is_narrow = true;
	g_assert_true(vms_machine_regs(machine, 0, &regs, NULL));
	g_assert_cmpint(counting.asked_for_segments, ==, 1);
	g_assert_true(vms_regs_have(&regs, CS_ATTR));
	/* It has not moved; then it has, and they cannot be had. */
	g_assert_true(vms_machine_regs(machine, 0, &regs, NULL));
	g_assert_cmpint(counting.asked_for_segments, ==, 1);
	g_assert_true(vms_regs_have(&regs, CS_ATTR));
	counting.rax = 10;
	counting.fail_segments = true;
	g_assert_true(vms_machine_regs(machine, 0, &regs, NULL));
	g_assert_cmpint(counting.asked_for_segments, ==, 2);
	g_assert_false(vms_regs_have(&regs, CS_ATTR));
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, NULL));
	vms_machine_unref(machine);
}

static void test_epoch(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &all_at_once);
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, 0);
	uint64_t last = 0;
	for (int i = 0; i < 3; i++) {
		vms_machine_hold(machine, 0, NULL);
		uint64_t epoch = vms_machine_epoch(machine, VMS_ALL_VCPUS);
		g_assert_cmpuint(epoch, >, last);
		vms_machine_hold(machine, VMS_ALL_VCPUS, NULL);
		g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, epoch);
		vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
		g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, epoch);
		vms_machine_release(machine, 0, NULL);
		g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, 0);
		last = epoch;
	}
	/* A release that fails leaves nothing held. */
	vms_machine_hold(machine, 0, NULL);
	counting.fail_release = true;
	g_assert_false(vms_machine_release(machine, 0, NULL));
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, 0);
	vms_machine_unref(machine);
}

static void test_each(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &each);
	g_autoptr(GError) error = NULL;
	struct vms_regs values;
	g_assert_true(vms_machine_hold(machine, 1, &error));
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, 0); /* the others run */
	g_assert_cmpuint(vms_machine_epoch(machine, 0), ==, 0);
	uint64_t of_one = vms_machine_epoch(machine, 1);
	g_assert_cmpuint(of_one, >, 0);
	g_assert_true(vms_machine_regs(machine, 1, &values, &error));
	g_assert_cmpuint(values.value[0], ==, 1);
	g_assert_false(vms_machine_regs(machine, 0, &values, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_clear_error(&error);
	g_assert_true(vms_machine_hold(machine, VMS_ALL_VCPUS, &error));
	uint64_t of_all = vms_machine_epoch(machine, VMS_ALL_VCPUS);
	g_assert_cmpuint(of_all, >, of_one);
	g_assert_cmpuint(vms_machine_epoch(machine, 1), ==, of_one); /* its hold goes on */
	g_assert_cmpint(counting.held[0] + counting.held[1] + counting.held[2], ==, 3);
	g_assert_true(vms_machine_release(machine, 1, &error));
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, of_all);
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, 0);
	/* Held one by one: another hold of the whole, however it came about. */
	for (int i = 0; i < VCPUS; i++)
		g_assert_true(vms_machine_hold(machine, i, &error));
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), >, of_all);
	of_all = vms_machine_epoch(machine, VMS_ALL_VCPUS);
	g_assert_true(vms_machine_release(machine, 0, &error));
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, 0);
	g_assert_true(vms_machine_hold(machine, 0, &error));
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), >, of_all);
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	/* One that cannot be held: none is. */
	counting.fail_hold_of = 2;
	g_assert_false(vms_machine_hold(machine, VMS_ALL_VCPUS, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT);
	g_assert_cmpint(counting.held[0] + counting.held[1] + counting.held[2], ==, 0);
	vms_machine_unref(machine);
}

/* vCPUs that wait for one another are let go and held again. */
static void test_busy(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &each);
	g_autoptr(GError) error = NULL;
	counting.busy = 3;
	g_assert_true(vms_machine_hold(machine, VMS_ALL_VCPUS, &error));
	g_assert_cmpuint(counting.busy, ==, 0);
	g_assert_cmpint(counting.held[0] + counting.held[1] + counting.held[2], ==, 3);
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	counting.busy = UINT_MAX;
	g_assert_false(vms_machine_hold(machine, VMS_ALL_VCPUS, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_WAITING);
	g_assert_cmpint(counting.held[0] + counting.held[1] + counting.held[2], ==, 0);
	vms_machine_unref(machine);
}

static gpointer hold_and_release(gpointer machine)
{
	g_assert_true(vms_machine_hold(machine, 0, NULL));
	g_assert_true(vms_machine_release(machine, 0, NULL));
	return NULL;
}

static bool refuse(struct vms_machine *machine, int vcpu, GError **error)
{
	if (!((struct counting *)machine)->is_refused)
		return hold(machine, vcpu, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY, "told so");
	return false;
}

static bool observe(struct vms_machine *machine, GError **error)
{
	if (((struct counting *)machine)->fail_observe) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED, "not that either");
		return false;
	}
	g_assert_cmpint(++*counter(machine, VMS_ALL_VCPUS), ==, 1); /* `release` ends it */
	return true;
}

static const struct vms_engine observable = { .hold = refuse,
					      .release = release,
					      .observe = observe,
					      .regs = regs,
					      .read_phys = read_phys,
					      .close = close_machine };

/* A machine that is observed runs: who needs it to stand still must not believe that it does. */
static void test_observed(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &observable);
	g_autoptr(GError) error = NULL;
	counting.is_refused = true;
	g_assert_true(vms_machine_observe(machine, &error));
	g_assert_cmpint(counting.held[VCPUS], ==, 1);
	counting.is_refused = false; /* not even then, as the engine observes */
	for (int vcpu = VMS_ALL_VCPUS; vcpu < VCPUS; vcpu++) {
		g_assert_false(vms_machine_hold(machine, vcpu, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
		g_clear_error(&error);
		g_assert_false(vms_machine_hold_briefly(machine, vcpu, NULL));
	}
	/* It goes on until the last who observes has ended it. */
	g_assert_true(vms_machine_observe(machine, &error));
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	g_assert_cmpint(counting.held[VCPUS], ==, 1);
	g_assert_false(vms_machine_hold(machine, 0, NULL));
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	g_assert_cmpint(counting.held[VCPUS], ==, 0);

	/* Then it can be held again, and who observes it holds it. */
	g_assert_true(vms_machine_observe(machine, &error));
	g_assert_true(vms_machine_hold(machine, 0, &error));
	g_assert_true(vms_machine_release(machine, 0, &error));
	g_assert_true(vms_machine_release(machine, VMS_ALL_VCPUS, &error));
	g_assert_no_error(error);
	vms_machine_unref(machine);
}

/* What is told is why the machine cannot be held. If that is no refusal, it is not observed. */
static void test_not_observed(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &observable);
	g_autoptr(GError) error = NULL;
	counting.is_refused = counting.fail_observe = true;
	g_assert_false(vms_machine_observe(machine, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_BUSY);
	g_clear_error(&error);
	g_assert_false(vms_machine_release(machine, VMS_ALL_VCPUS, NULL));
	counting.is_refused = counting.fail_observe = false;
	counting.fail_hold_of = VMS_ALL_VCPUS;
	g_assert_false(vms_machine_observe(machine, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT);
	vms_machine_unref(machine);
}

/* Everything that does not concern the vCPU that is silent is done while it is. */
static void test_silent_vcpu(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &each);
	struct vms_regs values;
	counting.silent = 0;
	g_autoptr(GThread) thread = g_thread_new("silent", hold_and_release, machine);
	g_mutex_lock(&counting.lock);
	while (!counting.asked)
		g_cond_wait(&counting.changed, &counting.lock);
	g_mutex_unlock(&counting.lock);

	g_assert_true(vms_machine_hold(machine, 1, NULL));
	g_assert_cmpuint(vms_machine_epoch(machine, 1), >, 0);
	g_assert_cmpuint(vms_machine_epoch(machine, 0), ==, 0);
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), ==, 0);
	g_assert_true(vms_machine_all_regs(machine, 1, &values, NULL));
	g_assert_true(vms_machine_read_phys(machine, 0, &(uint8_t) { 0 }, 1));
	g_assert_cmpint(vms_machine_ended(machine), ==, VMS_MACHINE_GOES_ON);
	g_assert_true(vms_machine_release(machine, 1, NULL));

	g_mutex_lock(&counting.lock);
	counting.silent = INT_MIN;
	g_cond_signal(&counting.changed);
	g_mutex_unlock(&counting.lock);
	g_thread_join(g_steal_pointer(&thread));
	g_assert_false(counting.timed_out);
	vms_machine_unref(machine);
}

static void test_arguments(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &all_at_once);
	struct vms_regs values;
	uint8_t buf[16];
	static const int wrong[] = { VCPUS, -2, G_MAXINT, G_MININT };
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
		g_autoptr(GError) error = NULL;
		g_assert_false(vms_machine_hold(machine, wrong[i], &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	}
	g_assert_false(vms_machine_regs(machine, 0, &values, NULL));
	vms_machine_hold(machine, VMS_ALL_VCPUS, NULL);
	g_assert_true(vms_machine_regs(machine, VCPUS - 1, &values, NULL));
	g_assert_false(vms_machine_regs(machine, VCPUS, &values, NULL));
	g_assert_false(vms_machine_regs(machine, G_MAXUINT, &values, NULL));
	vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
	g_assert_false(vms_machine_read_phys(machine, G_MAXUINT64 - 7, buf, 16));
	g_assert_true(vms_machine_read_phys(machine, G_MAXUINT64 - 15, buf, 16));
	g_assert_cmpint(vms_machine_vcpu_thread(machine, 0), ==, 0);
	vms_machine_unref(machine);
}

static GArray *pieces; /* size_t: what read_in_pieces was asked for */

static bool read_in_pieces(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	(void)machine;
	g_array_append_val(pieces, size);
	for (size_t i = 0; i < size; i++)
		((uint8_t *)buf)[i] = (uint8_t)(pa + i);
	return pa + size <= 100;
}

/* Where a machine stands still for what is read, it runs in between. */
static void test_pieces(void)
{
	static const struct vms_engine engine = { .hold = hold,
						  .release = release,
						  .regs = regs,
						  .read_phys = read_in_pieces,
						  .held_read_max = 10,
						  .close = close_machine };
	static const size_t expected[] = { 10, 10, 5 };
	struct counting counting;
	struct vms_machine *machine = start(&counting, &engine);
	uint8_t buf[25];
	pieces = g_array_new(FALSE, FALSE, sizeof(size_t));
	g_assert_true(vms_machine_read_phys(machine, 70, buf, sizeof(buf)));
	g_assert_cmpmem(pieces->data, pieces->len * sizeof(size_t), expected, sizeof(expected));
	for (unsigned i = 0; i < sizeof(buf); i++)
		g_assert_cmpuint(buf[i], ==, 70 + i);
	g_assert_false(vms_machine_read_phys(machine, 80, buf, sizeof(buf)));
	g_assert_true(vms_machine_read_stops(machine, 0));
	vms_machine_unref(machine);
	g_array_unref(pieces);

	machine = start(&counting, &all_at_once);
	g_assert_false(vms_machine_read_stops(machine, 0));
	vms_machine_unref(machine);
}

static void test_references(void)
{
	struct counting counting;
	struct vms_machine *machine = start(&counting, &all_at_once);
	g_assert_true(vms_machine_ref(machine) == machine);
	vms_machine_unref(machine);
	g_assert_cmpuint(counting.closed, ==, 0);
	vms_machine_unref(machine);
	g_assert_cmpuint(counting.closed, ==, 1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/machine/nested-holds", test_nested_holds);
	g_test_add_func("/machine/segments", test_segments);
	g_test_add_func("/machine/epoch", test_epoch);
	g_test_add_func("/machine/each", test_each);
	g_test_add_func("/machine/busy", test_busy);
	g_test_add_func("/machine/observed", test_observed);
	g_test_add_func("/machine/not-observed", test_not_observed);
	g_test_add_func("/machine/silent-vcpu", test_silent_vcpu);
	g_test_add_func("/machine/arguments", test_arguments);
	g_test_add_func("/machine/pieces", test_pieces);
	g_test_add_func("/machine/references", test_references);
	return g_test_run();
}
