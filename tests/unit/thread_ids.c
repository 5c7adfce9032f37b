/* SPDX-License-Identifier: MIT */
/* Threads in PID namespaces of their own: what a thread there calls itself, and what we call it. */
#include "machine/host/thread_ids.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a process says from inside, and what its parent, outside, knows. */
struct said {
	pid_t outer, process, thread;
};

static void test_parse(void)
{
	g_assert_cmpuint(vms_host_parse_own_id("Name:\tx\nPid:\t77\nNSpid:\t77\nNSpgid:\t5\n"), ==,
			 77);
	g_assert_cmpuint(vms_host_parse_own_id("Pid:\t77\nNSpid:\t77\t12\t3\nNSpgid:\t5\n"), ==, 3);
	g_assert_cmpuint(vms_host_parse_own_id("Pid:\t77\nNSpid:\t77\t3"), ==, 3);
	g_assert_cmpuint(vms_host_parse_own_id("Name:\tNSpid: 5\nPid:\t77\n"), ==, 0);
	g_assert_cmpuint(vms_host_parse_own_id("Pid:\t77\nNSpid:\t\nNSpgid:\t5\n"), ==, 0);
	g_assert_cmpuint(vms_host_parse_own_id(""), ==, 0);
}

static void *say_thread(void *data)
{
	const int *to = data;
	struct said said = { 0, getpid(), (pid_t)syscall(SYS_gettid) };
	g_assert_cmpint(write(*to, &said, sizeof(said)), ==, sizeof(said));
	for (;;)
		pause();
	return NULL;
}

/* The first process of a namespace: with it all others end. */
G_NORETURN static void live_inside(int to)
{
	pthread_t thread;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&thread, NULL, say_thread, &to) != 0)
		_exit(1);
	for (;;)
		pause();
}

/* Makes the namespace, and says under which pid its first process is known outside. */
G_NORETURN static void live_between(int to)
{
	struct said said = { 0 };
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 && (said.outer = fork()) == 0)
		live_inside(to);
	if (write(to, &said, sizeof(said)) < 0)
		_exit(1);
	for (;;)
		pause();
}

/* Takes both messages, in whichever order they come. False: this host has no such namespaces. */
static bool hear(int from, struct said *ret)
{
	struct said said;
	*ret = (struct said) { 0 };
	while (!ret->outer || !ret->thread) {
		g_assert_cmpint(read(from, &said, sizeof(said)), ==, sizeof(said));
		if (said.outer <= 0 && said.thread == 0)
			return false;
		ret->outer = MAX(ret->outer, said.outer);
		ret->process = MAX(ret->process, said.process);
		ret->thread = MAX(ret->thread, said.thread);
	}
	return true;
}

static void test_namespace(void)
{
	int ends[2];
	struct said said;
	g_assert_cmpint(pipe(ends), ==, 0);
	pid_t between = fork();
	if (between == 0)
		live_between(ends[1]);
	if (hear(ends[0], &said)) {
		g_assert_cmpint(said.process, ==, 1);
		g_assert_cmpint(vms_host_find_thread(said.outer, 1), ==, said.outer);
		pid_t thread = vms_host_find_thread(said.outer, (guint64)said.thread);
		g_autofree char *path =
			g_strdup_printf("/proc/%d/task/%d", (int)said.outer, (int)thread);
		g_assert_cmpint(thread, !=, said.outer);
		g_assert_cmpint(access(path, F_OK), ==, 0);
		/* Our names for them mean nothing there. */
		g_assert_cmpint(vms_host_find_thread(said.outer, (guint64)said.outer), ==, 0);
		g_assert_cmpint(vms_host_find_thread(said.outer, (guint64)thread), ==, 0);
	} else {
		g_test_skip("no PID namespaces here");
	}
	kill(between, SIGKILL);
	g_assert_cmpint(waitpid(between, NULL, 0), ==, between);
	close(ends[0]);
	close(ends[1]);
}

static void test_own_namespace(void)
{
	g_assert_cmpint(vms_host_find_thread(getpid(), (guint64)getpid()), ==, getpid());
	g_assert_cmpint(vms_host_find_thread(getpid(), (guint64)getppid()), ==, 0);
	g_assert_cmpint(vms_host_find_thread(getpid(), G_MAXUINT64), ==, 0);
	g_assert_cmpint(vms_host_find_thread(0, 1), ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/thread-ids/parse", test_parse);
	g_test_add_func("/thread-ids/namespace", test_namespace);
	g_test_add_func("/thread-ids/own-namespace", test_own_namespace);
	return g_test_run();
}
