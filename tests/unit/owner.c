/* SPDX-License-Identifier: MIT */
#include "base/owner.h"

#include <glib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_state(struct vms_owner owner, enum vms_owner_state expected)
{
	struct vms_owner read;
	g_autofree char *label = vms_owner_label(&owner);
	g_assert_true(vms_owner_parse(label, &read));
	g_assert_cmpint(vms_owner_state(&read), ==, expected);
}

static void test_label(void)
{
	struct vms_owner read;
	struct vms_owner owner = { 4194304, UINT64_C(9999999999999999), 4026531836, 0x0000beef };
	g_autofree char *label = vms_owner_label(&owner);
	g_assert_cmpstr(label, ==, "vmscope-4194304-9999999999999999-4026531836-0000beef");
	g_assert_true(vms_owner_parse(label, &read));
	g_assert_cmpint(read.pid, ==, owner.pid);
	g_assert_cmpuint(read.start_time, ==, owner.start_time);
	g_assert_cmpuint(read.pid_namespace, ==, owner.pid_namespace);
	g_assert_cmpuint(read.boot, ==, owner.boot);
}

/* Whoever made these, they say nothing of an owner. */
static void test_strange(void)
{
	static const char *const strange[] = {
		"vmscope-",
		"vmscope-1234",
		"vmscope-1-2-3",
		"vmscope--1-2-3-00000004",
		"vmscope-1-2-3-00000004x",
		"vmscope-1-2-3-00000004 ",
		"vmscope- 1-2-3-00000004",
		"vmscope-1--2-3-00000004",
		"vmscope-1-2-3-4",
		"vmscope-99999999999-2-3-00000004",
		"vmscope-1-99999999999999999999-3-00000004",
	};
	struct vms_owner owner;
	for (size_t i = 0; i < G_N_ELEMENTS(strange); i++) {
		g_assert_true(vms_owner_parse(strange[i], &owner));
		g_assert_cmpint(owner.pid, ==, 0);
		g_assert_cmpint(vms_owner_state(&owner), ==, VMS_OWNER_UNKNOWN);
	}
	g_assert_false(vms_owner_parse("gdb", &owner));
	g_assert_false(vms_owner_parse("", &owner));
	g_assert_false(vms_owner_parse("xvmscope-1-2-3-00000004", &owner));
}

static void test_state(void)
{
	struct vms_owner self = vms_owner_self();
	g_assert_cmpint(self.pid, ==, getpid());
	check_state(self, VMS_OWNER_OURS);
	/* A container's vmscope has pids like ours. */
	struct vms_owner elsewhere = self;
	elsewhere.pid_namespace++;
	check_state(elsewhere, VMS_OWNER_UNKNOWN);
	struct vms_owner other_boot = self;
	other_boot.boot ^= 1;
	check_state(other_boot, VMS_OWNER_UNKNOWN);
	/* Our pid was another process's before. */
	struct vms_owner before = self;
	before.start_time--;
	check_state(before, VMS_OWNER_DEAD);

	struct vms_owner child = self;
	int said[2];
	g_assert_cmpint(pipe(said), ==, 0);
	child.pid = fork();
	if (child.pid == 0) {
		struct vms_owner own = vms_owner_self();
		if (write(said[1], &own, sizeof(own)) != sizeof(own))
			_exit(1);
		for (;;)
			pause();
	}
	struct vms_owner told;
	g_assert_cmpint(read(said[0], &told, sizeof(told)), ==, sizeof(told));
	g_assert_cmpint(told.pid, ==, child.pid);
	g_assert_cmpuint(told.pid_namespace, ==, self.pid_namespace);
	check_state(told, VMS_OWNER_ALIVE);
	struct vms_owner reused = told;
	reused.start_time++;
	check_state(reused, VMS_OWNER_DEAD);
	siginfo_t end;
	g_assert_cmpint(kill(told.pid, SIGKILL), ==, 0);
	g_assert_cmpint(waitid(P_PID, (id_t)told.pid, &end, WEXITED | WNOWAIT), ==, 0);
	check_state(told, VMS_OWNER_DEAD);
	waitpid(told.pid, NULL, 0);
	check_state(told, VMS_OWNER_DEAD);
	close(said[0]);
	close(said[1]);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/owner/label", test_label);
	g_test_add_func("/owner/strange", test_strange);
	g_test_add_func("/owner/state", test_state);
	return g_test_run();
}
