/* SPDX-License-Identifier: MIT */
/*
 * The watchdog's process beside a QEMU that the test plays: whose the record says that a stop is,
 * in the very moment of it. If the watchdog is killed then, that is all that the next vmscope has.
 */
#include "machine/qemu/guard_qmp.h"

#include "machine/qemu/hold_record.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A QEMU with breakpoints of a vmscope that has died. */
struct qemu {
	int qmp, stub;
	const char *state;
	bool stops_at_once; /* its owner stops it as soon as it has told that it runs */
	struct vms_record *record;
	enum vms_hold_phase at_stop; /* when the stub heard of the watchdog for the first time */
	bool is_heard, is_continued;
};

static enum vms_hold_phase phase_of(const struct qemu *qemu)
{
	return vms_hold_phase(atomic_load(&qemu->record->hold.word));
}

static void say(int fd, const char *text)
{
	g_assert_cmpint(send(fd, text, strlen(text), MSG_NOSIGNAL), ==, (ssize_t)strlen(text));
}

static void answer_status(struct qemu *qemu, const char *command)
{
	const char *id = strstr(command, "\"id\":");
	char text[200];
	snprintf(text, sizeof(text), "{\"return\": {\"status\": \"%s\"}, \"id\": %.*s}\r\n",
		 qemu->state, (int)strcspn(id + 5, "}"), id + 5);
	say(qemu->qmp, text);
	if (qemu->stops_at_once)
		qemu->state = "paused";
}

static void hear_qmp(struct qemu *qemu, char *lines)
{
	char *rest = NULL;
	for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strstr(line, "query-status"))
			answer_status(qemu, line);
		else if (strstr(line, "\"cont\"")) {
			qemu->is_continued = true;
			qemu->state = "running";
		}
	}
}

static void hear_stub(struct qemu *qemu, const char *bytes)
{
	if (!qemu->is_heard)
		qemu->at_stop = phase_of(qemu);
	qemu->is_heard = true;
	if (strcmp(qemu->state, "running") == 0) {
		qemu->state = "paused";
		say(qemu->stub, "$T02thread:01;#04");
	}
	while ((bytes = strstr(bytes, "$qC#b4"))) {
		say(qemu->stub, "$QC01#f5");
		bytes++;
	}
}

/* Plays it until the watchdog has closed its connection. */
static void play(struct qemu *qemu)
{
	char text[4096];
	struct pollfd ends[] = { { .fd = qemu->qmp, .events = POLLIN },
				 { .fd = qemu->stub, .events = POLLIN } };
	for (;;) {
		g_assert_cmpint(poll(ends, G_N_ELEMENTS(ends), 60000), >, 0);
		const bool is_stub = !ends[0].revents;
		ssize_t n = recv(ends[is_stub].fd, text, sizeof(text) - 1, 0);
		if (n <= 0)
			return;
		text[n] = 0;
		if (is_stub)
			hear_stub(qemu, text);
		else
			hear_qmp(qemu, text);
	}
}

/* Has a watchdog clean up, in a process of its own, as it is. */
static void clean_up(struct qemu *qemu, enum vms_hold_phase phase)
{
	static const struct vms_host_identity nobody;
	g_autoptr(GError) error = NULL;
	int qmp[2], stub[2], file;
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, qmp), ==, 0);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, stub), ==, 0);
	qemu->record = vms_record_new(NULL, &nobody, &file, &error);
	g_assert_no_error(error);
	struct vms_hold *hold = &qemu->record->hold;
	atomic_store(&hold->has_breakpoints, true);
	atomic_store(&hold->last_thread, 1);
	vms_hold_begin(hold, phase, 0, 0);
	const pid_t watchdog = fork();
	if (watchdog == 0) {
		const struct vms_guard guard = { .record = qemu->record,
						 .qmp = qmp[1],
						 .stub = stub[1],
						 .gdb = -1,
						 .holder_end = -1 };
		close(qmp[0]);
		close(stub[0]);
		vms_guard_clean_up_qmp(&guard);
		_exit(0);
	}
	close(qmp[1]);
	close(stub[1]);
	qemu->qmp = qmp[0];
	qemu->stub = stub[0];
	play(qemu);
	waitpid(watchdog, NULL, 0);
	close(qmp[0]);
	close(stub[0]);
	g_assert_true(qemu->is_heard);
}

/* What makes the breakpoints go stops a machine that runs. */
static void test_running(void)
{
	static const enum vms_hold_phase phases[] = { VMS_HOLD_NONE, VMS_HOLD_LOOKING,
						      VMS_HOLD_HELD };
	for (size_t i = 0; i < G_N_ELEMENTS(phases); i++) {
		struct qemu qemu = { .state = "running" };
		clean_up(&qemu, phases[i]);
		g_assert_true(vms_hold_may_be_ours(qemu.at_stop));
		g_assert_true(vms_hold_may_be_ours(phase_of(&qemu)));
		g_assert_true(qemu.is_continued);
		vms_record_free(qemu.record);
	}
}

/* A machine that its owner has paused is not stopped by us at any moment. */
static void test_paused(void)
{
	static const enum vms_hold_phase phases[] = { VMS_HOLD_NONE, VMS_HOLD_LOOKING };
	for (size_t i = 0; i < G_N_ELEMENTS(phases); i++) {
		struct qemu qemu = { .state = "paused" };
		clean_up(&qemu, phases[i]);
		g_assert_cmpint(qemu.at_stop, ==, phases[i]);
		g_assert_cmpint(phase_of(&qemu), ==, phases[i]);
		g_assert_false(qemu.is_continued);
		vms_record_free(qemu.record);
	}
}

/* Its owner pauses it just before the watchdog's request arrives. */
static void test_paused_meanwhile(void)
{
	struct qemu qemu = { .state = "running", .stops_at_once = true };
	clean_up(&qemu, VMS_HOLD_NONE);
	g_assert_cmpint(phase_of(&qemu), ==, VMS_HOLD_NONE);
	g_assert_false(qemu.is_continued);
	vms_record_free(qemu.record);
}

/* A breakpoint of ours has stopped it. */
static void test_hit(void)
{
	struct qemu qemu = { .state = "debug" };
	clean_up(&qemu, VMS_HOLD_NONE);
	g_assert_true(qemu.is_continued);
	vms_record_free(qemu.record);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/guard/running", test_running);
	g_test_add_func("/guard/paused", test_paused);
	g_test_add_func("/guard/paused-meanwhile", test_paused_meanwhile);
	g_test_add_func("/guard/hit", test_hit);
	return g_test_run();
}
