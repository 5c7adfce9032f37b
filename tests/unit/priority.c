/* SPDX-License-Identifier: MIT */
#include "base/priority.h"

#include <glib.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the kernel shows of a thread: fields 19, 40 and 41 of proc_pid_stat(5). */
struct shown {
	int nice_value, priority, policy;
};

static struct shown read_shown(void)
{
	g_autofree char *path = g_strdup_printf("/proc/self/task/%d/stat", gettid());
	g_autofree char *text = NULL;
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	/* The name, which ends with the last parenthesis, is field 2. */
	g_auto(GStrv) fields = g_strsplit(strrchr(text, ')') + 2, " ", -1);
	return (struct shown) { atoi(fields[19 - 3]), atoi(fields[40 - 3]), atoi(fields[41 - 3]) };
}

static void assert_shown(int nice_value, int priority, int policy)
{
	const struct shown shown = read_shown();
	g_assert_cmpint(shown.nice_value, ==, nice_value);
	g_assert_cmpint(shown.priority, ==, priority);
	g_assert_cmpint(shown.policy, ==, policy);
}

static gpointer check_not_inherited(gpointer data)
{
	assert_shown(0, 0, SCHED_OTHER);
	return data;
}

static gpointer run_hurried(gpointer data)
{
	const int before = vms_thread_set_urgent();
	const int urgent = read_shown().nice_value;
	if (!vms_thread_set_real_time(gettid())) {
		g_test_skip("real-time scheduling is not permitted");
		return data;
	}
	g_assert_cmpint(read_shown().policy, ==, SCHED_RR);
	g_assert_cmpint(read_shown().priority, ==, 1);
	g_assert_false(vms_thread_set_real_time(gettid()));
	g_thread_join(g_thread_new("inherits", check_not_inherited, NULL));
	vms_thread_end_real_time(gettid());
	assert_shown(urgent, 0, SCHED_OTHER);
	vms_thread_set_nice(before);
	assert_shown(before, 0, SCHED_OTHER);
	return data;
}

static void test_real_time(void)
{
	g_thread_join(g_thread_new("hurried", run_hurried, NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/priority/real_time", test_real_time);
	return g_test_run();
}
