/* SPDX-License-Identifier: MIT */
/* Pauses of a machine, against sums done by hand. */
#include "machine/qemu/pause_times.h"

static void test_none(void)
{
	struct vms_pauses pauses = { 0 };
	g_assert_cmpuint(vms_pauses_until(&pauses, 0), ==, 0);
	g_assert_cmpuint(vms_pauses_until(&pauses, UINT64_MAX), ==, 0);
	vms_pauses_end(&pauses, 5); /* it runs anyhow */
	g_assert_cmpuint(vms_pauses_until(&pauses, 100), ==, 0);
	vms_pauses_clear(&pauses);
}

static void test_some(void)
{
	struct vms_pauses pauses = { 0 };
	vms_pauses_begin(&pauses, 100);
	vms_pauses_begin(&pauses, 110); /* told twice */
	vms_pauses_end(&pauses, 150);
	vms_pauses_end(&pauses, 170);
	vms_pauses_begin(&pauses, 200);
	vms_pauses_end(&pauses, 210);
	vms_pauses_begin(&pauses, 300);
	static const struct {
		uint64_t time_ns, paused_ns;
	} cases[] = { { 0, 0 },	   { 100, 0 },	{ 101, 1 },  { 150, 50 }, { 199, 50 },
		      { 205, 55 }, { 210, 60 }, { 300, 60 }, { 305, 65 }, { 1000, 760 } };
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
		g_assert_cmpuint(vms_pauses_until(&pauses, cases[i].time_ns), ==,
				 cases[i].paused_ns);
	vms_pauses_clear(&pauses);
}

/* Events carry the host's wall clock, which may be set back. */
static void test_backwards(void)
{
	struct vms_pauses pauses = { 0 };
	vms_pauses_begin(&pauses, 100);
	vms_pauses_end(&pauses, 90);
	g_assert_cmpuint(vms_pauses_until(&pauses, 200), ==, 0);
	vms_pauses_begin(&pauses, 80);
	vms_pauses_end(&pauses, 120);
	g_assert_cmpuint(vms_pauses_until(&pauses, 200), ==, 20);
	vms_pauses_clear(&pauses);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pauses/none", test_none);
	g_test_add_func("/pauses/some", test_some);
	g_test_add_func("/pauses/backwards", test_backwards);
	return g_test_run();
}
