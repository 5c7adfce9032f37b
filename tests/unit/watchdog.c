/* SPDX-License-Identifier: MIT */
/* What the watchdog does about a machine that stands still when its tool has gone. */
#include "machine/qemu/watchdog.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A QEMU: it says what has happened, then answers until its client hangs up. */
struct qemu {
	int fd;
	bool was_continued;
};

static void say(const struct qemu *qemu, const char *text)
{
	g_assert_cmpint(write(qemu->fd, text, strlen(text)), ==, (int)strlen(text));
}

static void answer(struct qemu *qemu, const char *line)
{
	const char *id = strstr(line, "\"id\":");
	if (strstr(line, "\"cont\""))
		qemu->was_continued = true;
	if (!strstr(line, "query-status"))
		return;
	g_assert_nonnull(id);
	g_autofree char *text = g_strdup_printf(
		"{\"return\": {\"status\": \"%s\", \"running\": %s}, \"id\": %s\r\n",
		qemu->was_continued ? "running" : "paused", qemu->was_continued ? "true" : "false",
		id + strlen("\"id\":"));
	say(qemu, text);
}

static gpointer run_qemu(gpointer data)
{
	struct qemu *qemu = data;
	g_autoptr(GString) heard = g_string_new(NULL);
	char bytes[4096];
	ssize_t n;
	while ((n = read(qemu->fd, bytes, sizeof(bytes))) > 0) {
		g_string_append_len(heard, bytes, n);
		for (char *end; (end = memchr(heard->str, '\n', heard->len));) {
			*end = 0;
			answer(qemu, heard->str);
			g_string_erase(heard, 0, end + 1 - heard->str);
		}
	}
	return NULL;
}

/* What the tool knew when it ended, and what QEMU had told that it had not read. */
struct situation {
	const char *name;
	enum vms_hold_phase phase;
	bool is_answered;    /* the last request that may stop the machine */
	int resume_after_us; /* when it was resumed, counted from that request; 0: it was not */
	bool is_read;	     /* the tool has read of the resume */
	bool must_be_continued;
};

#define BEFORE (-500000)
#define AFTER  500000

static const struct situation situations[] = {
	{ "held", VMS_HOLD_HELD, true, 0, false, true },
	{ "held-request-under-way", VMS_HOLD_HELD, false, 0, false, true },
	{ "held-resumed-before", VMS_HOLD_HELD, true, BEFORE, false, true },
	{ "held-resumed-since", VMS_HOLD_HELD, true, AFTER, false, false },
	{ "held-resumed-since-request-under-way", VMS_HOLD_HELD, false, AFTER, false, true },
	{ "looking", VMS_HOLD_LOOKING, true, 0, false, false },
	{ "looking-resumed-before", VMS_HOLD_LOOKING, true, BEFORE, false, true },
	{ "looking-resumed-since", VMS_HOLD_LOOKING, true, AFTER, false, false },
	{ "looking-resumed-before-and-read", VMS_HOLD_LOOKING, true, BEFORE, true, true },
	{ "looking-resumed-since-and-read", VMS_HOLD_LOOKING, true, AFTER, true, false },
	{ "held-resumed-since-and-read", VMS_HOLD_HELD, true, AFTER, true, false },
	{ "owed-resumed-since", VMS_HOLD_OWED, true, AFTER, false, false },
	{ "not-held", VMS_HOLD_NONE, true, 0, false, false },
};

static void say_resume_and_stop(const struct qemu *qemu, int64_t resume_us)
{
	g_autofree char *text = g_strdup_printf(
		"{\"timestamp\": {\"seconds\": %" G_GINT64_FORMAT ", \"microseconds\": %06d}, "
		"\"event\": \"RESUME\"}\r\n"
		"{\"timestamp\": {\"seconds\": %" G_GINT64_FORMAT ", \"microseconds\": %06d}, "
		"\"event\": \"STOP\"}\r\n",
		resume_us / G_USEC_PER_SEC, (int)(resume_us % G_USEC_PER_SEC),
		(resume_us + 1000) / G_USEC_PER_SEC, (int)((resume_us + 1000) % G_USEC_PER_SEC));
	say(qemu, text);
}

static void test_situation(gconstpointer data)
{
	const struct situation *situation = data;
	struct vms_stream stream = { 0 };
	struct vms_host_identity self;
	g_autoptr(GError) error = NULL;
	int ends[2];
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
	struct qemu qemu = { .fd = ends[1] };
	vms_stream_init(&stream, ends[0], g_strdup("a QEMU"));
	g_assert_true(vms_host_identity_open(&self, getpid(), &error));
	struct vms_watchdog *watchdog =
		vms_watchdog_new_qmp(&stream, &self, "vmscope-test", &error);
	g_assert_no_error(error);

	struct vms_hold *hold = vms_watchdog_hold(watchdog);
	const int64_t asked_us = g_get_real_time();
	vms_hold_begin(hold, situation->phase, 0, 0);
	vms_hold_note_request(hold, asked_us);
	if (situation->is_answered)
		vms_hold_note_answer(hold);
	if (situation->is_read)
		atomic_store(&hold->resumed_us, asked_us + situation->resume_after_us);
	else if (situation->resume_after_us)
		say_resume_and_stop(&qemu, asked_us + situation->resume_after_us);
	GThread *thread = g_thread_new("qemu", run_qemu, &qemu);
	vms_watchdog_free(watchdog, false);
	vms_stream_close(&stream);
	g_thread_join(thread);
	g_assert_cmpint(qemu.was_continued, ==, situation->must_be_continued);
	close(qemu.fd);
	vms_host_identity_close(&self);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(situations); i++) {
		g_autofree char *path = g_strdup_printf("/watchdog/%s", situations[i].name);
		g_test_add_data_func(path, &situations[i], test_situation);
	}
	return g_test_run();
}
