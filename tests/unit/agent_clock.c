/* SPDX-License-Identifier: MIT */
#include "agent/clock.h"
#include "base/clock.h"
#include <glib.h>

#define TOLERANCE_NS 1000000 /* by how much the clock steers at most */

/* It lies between two readings of the clock that it follows, whenever it is read. */
static void test_follows(void)
{
	struct clock clock = { 0 };
	for (unsigned i = 0; i < 400; i++) {
		for (unsigned n = 0; n < 1000; n++) {
			uint64_t before = vms_clock_now_ns();
			uint64_t now = clock_read(&clock);
			uint64_t after = vms_clock_now_ns();
			g_assert_cmpuint(now + TOLERANCE_NS, >=, before);
			g_assert_cmpuint(now, <=, after + TOLERANCE_NS);
		}
		g_usleep(i % 100 == 99 ? 200000 : 1000);
	}
}

/* A counter that has gone back, as after a restored snapshot of the host, is no trouble. */
static void test_counter_goes_back(void)
{
	struct clock clock = { 0 };
	clock_read(&clock);
	clock.base_ticks = UINT64_MAX / 2;
	uint64_t before = vms_clock_now_ns();
	uint64_t now = clock_read(&clock);
	g_assert_cmpuint(now, >=, before);
	g_assert_cmpuint(now, <=, vms_clock_now_ns());
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/agent-clock/follows", test_follows);
	g_test_add_func("/agent-clock/counter-goes-back", test_counter_goes_back);
	return g_test_run();
}
