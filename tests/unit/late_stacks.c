/* SPDX-License-Identifier: MIT */
/* The stacks have no process, so that a walk leaves them as they are. */
#include "sample/late_stacks.h"
#include <glib.h>

static struct vms_sample_record record, taken;
static struct vms_user_copy copy;

struct fixture {
	unsigned n;
	struct vms_late_stacks late;
	struct vms_file_readings readings;
	struct vms_late_walk walk;
	struct vms_hold_time time;
};

static void set_up(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	vms_late_stacks_init(&fixture->late, &fixture->n);
	fixture->walk.readings = &fixture->readings;
}

static void tear_down(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	vms_late_stacks_clear(&fixture->late);
}

static bool add(struct fixture *fixture, uint64_t begin_ns, enum vms_walk_end end)
{
	const struct vms_hold_time time = { begin_ns, 1 };
	record.stack.n = 2;
	record.stack.end = end;
	return vms_late_stacks_add(&fixture->late, &record, &copy, 2, &time, &fixture->readings);
}

static bool take(struct fixture *fixture, bool must)
{
	return vms_late_stacks_take(&fixture->late, &fixture->walk, must, &taken, &fixture->time);
}

static void read_files(struct fixture *fixture)
{
	fixture->readings.begun++;
	fixture->readings.done++;
}

/* What is whole waits for what is not, and no longer. */
static void test_order(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	record.stack.end = VMS_WALK_ROOT;
	g_assert_false(vms_late_stacks_must_wait(&fixture->late, &record.stack));
	g_assert_true(add(fixture, 1, VMS_WALK_NO_TABLE));
	record.stack.end = VMS_WALK_ROOT;
	g_assert_true(vms_late_stacks_must_wait(&fixture->late, &record.stack));
	g_assert_true(add(fixture, 2, VMS_WALK_ROOT));
	g_assert_false(take(fixture, false));
	g_assert_true(take(fixture, true));
	g_assert_cmpuint(fixture->time.begin_ns, ==, 1);
	g_assert_true(take(fixture, false));
	g_assert_cmpuint(fixture->time.begin_ns, ==, 2);
	g_assert_cmpuint(taken.stack.n, ==, 2);
	g_assert_cmpint(taken.stack.end, ==, VMS_WALK_ROOT);
	g_assert_false(take(fixture, true));
	g_assert_cmpuint(fixture->n, ==, 0);
}

static unsigned count_readings(struct fixture *fixture)
{
	unsigned n = 0;
	g_assert_true(add(fixture, 1, VMS_WALK_NO_TABLE));
	for (; !take(fixture, false); n++)
		read_files(fixture);
	return n;
}

/* A table that never comes is waited for, the less the more often that happens. */
static void test_given_up(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	g_assert_cmpuint(count_readings(fixture), ==, 16);
	g_assert_cmpuint(count_readings(fixture), ==, 8);
	for (unsigned i = 0; i < 5; i++)
		count_readings(fixture);
	g_assert_cmpuint(count_readings(fixture), ==, 1);
}

/* A reading that had begun before does not count. */
static void test_begun(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	fixture->late.tries = 1;
	fixture->readings.begun = 1;
	g_assert_true(add(fixture, 1, VMS_WALK_NO_TABLE));
	fixture->readings.done = 1;
	g_assert_false(take(fixture, false));
	read_files(fixture);
	g_assert_true(take(fixture, false));
}

/* All threads together have one limit. */
static void test_limit(struct fixture *fixture, gconstpointer data)
{
	struct vms_late_stacks other;
	(void)data;
	vms_late_stacks_init(&other, &fixture->n);
	for (unsigned i = 0; i < VMS_LATE_STACKS_LIMIT; i++)
		g_assert_true(add(fixture, i, VMS_WALK_NO_TABLE));
	g_assert_false(add(fixture, 0, VMS_WALK_NO_TABLE));
	g_assert_false(
		vms_late_stacks_add(&other, &record, &copy, 2, &fixture->time, &fixture->readings));
	g_assert_true(take(fixture, true));
	g_assert_true(add(fixture, 0, VMS_WALK_NO_TABLE));
	vms_late_stacks_clear(&other);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/late-stacks/order", struct fixture, NULL, set_up, test_order, tear_down);
	g_test_add("/late-stacks/given-up", struct fixture, NULL, set_up, test_given_up, tear_down);
	g_test_add("/late-stacks/begun", struct fixture, NULL, set_up, test_begun, tear_down);
	g_test_add("/late-stacks/limit", struct fixture, NULL, set_up, test_limit, tear_down);
	return g_test_run();
}
