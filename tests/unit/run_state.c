/* SPDX-License-Identifier: MIT */
/*
 * What is done in each of QEMU's states, told here once more from what an owner expects of each
 * (docs/safety.md), not from the table.
 */
#include "machine/qemu/run_state.h"
#include <glib.h>
#include <string.h>

/* As qapi/run-state.json of QEMU 10 lists them. */
static const char *const all[] = {
	"debug",     "inmigrate",      "internal-error", "io-error", "paused",	"postmigrate",
	"prelaunch", "finish-migrate", "restore-vm",	 "running",  "save-vm", "shutdown",
	"suspended", "watchdog",       "guest-panicked", "colo",
};

static enum vms_run_state parse(const char *name)
{
	return vms_run_state_parse(name, strlen(name));
}

static void test_names(void)
{
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		g_assert_cmpint(parse(all[i]), !=, VMS_RUN_UNKNOWN);
		g_assert_cmpstr(vms_run_state_name(parse(all[i])), ==, all[i]);
		g_assert_nonnull(vms_run_state_advice(parse(all[i])));
		g_assert_cmpint(vms_run_state_parse(all[i], strlen(all[i]) - 1), ==,
				VMS_RUN_UNKNOWN);
	}
	g_assert_cmpint(G_N_ELEMENTS(all), ==, VMS_RUN_N_STATES - 1);
	g_assert_cmpint(parse("unknown"), ==, VMS_RUN_UNKNOWN);
	g_assert_cmpint(parse(""), ==, VMS_RUN_UNKNOWN);
	g_assert_cmpint(vms_run_state_parse("paused (suspended)", 6), ==, VMS_RUN_PAUSED);
}

/* Only a running machine is ever stopped, and none while something is under way. */
static void test_stops(void)
{
	for (int busy = 0; busy < 2; busy++) {
		for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
			bool stops =
				vms_run_state_hold_way(parse(all[i]), busy) == VMS_HOLD_BY_STOP;
			g_assert_cmpint(stops, ==, strcmp(all[i], "running") == 0 && !busy);
		}
		g_assert_cmpint(vms_run_state_hold_way(VMS_RUN_UNKNOWN, busy), !=,
				VMS_HOLD_BY_STOP);
	}
}

/* Memory that is on its way is not looked at as if it stood still. */
static void test_moving(void)
{
	static const char *const moving[] = { "inmigrate", "finish-migrate", "restore-vm", "colo" };
	for (size_t i = 0; i < G_N_ELEMENTS(moving); i++)
		g_assert_cmpint(vms_run_state_hold_way(parse(moving[i]), false), ==,
				VMS_HOLD_NOT_NOW);
	g_assert_cmpint(vms_run_state_hold_way(VMS_RUN_SUSPENDED, false), ==, VMS_HOLD_AS_IT_IS);
	g_assert_cmpint(vms_run_state_hold_way(VMS_RUN_PAUSED, true), ==, VMS_HOLD_AS_IT_IS);
}

/* A `cont` is only ever sent to what a stop of ours leaves behind. */
static enum vms_run_state parse_status(const char *status)
{
	return vms_run_state_parse_status(status, strlen(status));
}

static void test_status(void)
{
	g_assert_cmpint(parse_status("running\r\nmore"), ==, VMS_RUN_RUNNING);
	g_assert_cmpint(parse_status("paused"), ==, VMS_RUN_PAUSED);
	g_assert_cmpint(parse_status("paused (finish-migrate)\n"), ==, VMS_RUN_FINISH_MIGRATE);
	g_assert_cmpint(parse_status("paused (susp"), ==, VMS_RUN_UNKNOWN);
	g_assert_cmpint(parse_status("paused\n(suspended)"), ==, VMS_RUN_PAUSED);
	g_assert_cmpint(parse_status(""), ==, VMS_RUN_UNKNOWN);
}

static void test_releases(void)
{
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		enum vms_release_way expected = VMS_RELEASE_NOTHING;
		if (strcmp(all[i], "paused") == 0 || strcmp(all[i], "prelaunch") == 0)
			expected = VMS_RELEASE_CONT;
		else if (strcmp(all[i], "suspended") == 0)
			expected = VMS_RELEASE_STOP_CONT;
		else if (strcmp(all[i], "finish-migrate") == 0)
			expected = VMS_RELEASE_LATER;
		g_assert_cmpint(vms_run_state_release_way(parse(all[i]), false), ==, expected);
	}
	g_assert_cmpint(vms_run_state_release_way(VMS_RUN_UNKNOWN, true), ==, VMS_RELEASE_NOTHING);
	g_assert_cmpint(vms_run_state_release_way(VMS_RUN_DEBUG, true), ==, VMS_RELEASE_CONT);
	g_assert_true(vms_run_state_may_follow_hit(VMS_RUN_DEBUG));
	g_assert_true(vms_run_state_may_follow_hit(VMS_RUN_PRELAUNCH));
	g_assert_false(vms_run_state_may_follow_hit(VMS_RUN_PAUSED));
	g_assert_false(vms_run_state_may_follow_hit(VMS_RUN_POSTMIGRATE));
}

static void test_migrations(void)
{
	static const char *const active[] = {
		"setup",       "active", "cancelling",	    "device",	       "pre-switchover",
		"wait-unplug", "colo",	 "postcopy-active", "postcopy-paused", "postcopy-recover"
	};
	static const char *const over[] = { "none", "completed", "failed", "cancelled" };
	for (size_t i = 0; i < G_N_ELEMENTS(active); i++)
		g_assert_true(vms_migration_is_active(active[i]));
	for (size_t i = 0; i < G_N_ELEMENTS(over); i++)
		g_assert_false(vms_migration_is_active(over[i]));
}

static void test_events(void)
{
	g_assert_true(vms_event_stops("SHUTDOWN", NULL));
	g_assert_true(vms_event_stops("GUEST_PANICKED", "pause"));
	g_assert_true(vms_event_stops("WATCHDOG", "pause"));
	g_assert_true(vms_event_stops("BLOCK_IO_ERROR", "stop"));
	g_assert_false(vms_event_stops("GUEST_PANICKED", "run"));
	g_assert_false(vms_event_stops("BLOCK_IO_ERROR", "report"));
	g_assert_false(vms_event_stops("WATCHDOG", NULL));
	g_assert_false(vms_event_stops("STOP", "pause"));
	g_assert_false(vms_event_stops("RESET", NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/run-state/names", test_names);
	g_test_add_func("/run-state/stops", test_stops);
	g_test_add_func("/run-state/moving", test_moving);
	g_test_add_func("/run-state/releases", test_releases);
	g_test_add_func("/run-state/status", test_status);
	g_test_add_func("/run-state/migrations", test_migrations);
	g_test_add_func("/run-state/events", test_events);
	return g_test_run();
}
