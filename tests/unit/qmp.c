/* SPDX-License-Identifier: MIT */
#include "machine/qemu/qmp.h"
#include "base/clock.h"
#include "peer.h"
#include <string.h>
#include <unistd.h>
#include <vmscope/error.h>

#define GREETING                                                                                   \
	"{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 2, \"minor\": 0, \"major\": 10}, "         \
	"\"package\": \"Debian\"}, \"capabilities\": [\"oob\"]}}\r\n"
#define READY	"{\"return\": {}, \"id\": 1}\r\n"
#define RUNNING "{\"return\": {\"status\": \"running\", \"running\": true}, \"id\": 2}\r\n"
#define OPENED	GREETING READY RUNNING

static void check_open(const char *lines, enum peer_end end, enum vms_error code)
{
	struct peer peer;
	struct vms_qmp qmp = { 0 };
	g_autoptr(GError) error = NULL;
	g_autofree char *shown = g_strescape(lines, NULL);
	g_test_message("%s", shown);
	peer_start(&peer, &qmp.stream, lines, end);
	g_assert_false(vms_qmp_open(&qmp, &error));
	g_assert_error(error, VMS_ERROR, (int)code);
	g_assert_null(strchr(error->message, '\n'));
	vms_qmp_close(&qmp);
	g_string_free(peer_stop(&peer), TRUE);
}

static void test_bad_peers(void)
{
	check_open("", PEER_STAYS, VMS_ERROR_BUSY);
	check_open("{\"QMP\":", PEER_STAYS, VMS_ERROR_BUSY);
	check_open("", PEER_CLOSES, VMS_ERROR_CLOSED);
	check_open("{\"QMP\": {\"ver", PEER_CLOSES, VMS_ERROR_CLOSED);
	check_open("SSH-2.0-OpenSSH_9.2\r\n", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open("\xff\xfe\x01", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open("[1, 2]\n", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open("null\n", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open("{\"QMP\": 5}\n", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open("{\"QMP\": {\"version\": {\"qemu\": {\"major\": \"x\"}}}}\n", PEER_STAYS,
		   VMS_ERROR_PROTOCOL);
	check_open("{\"QMP\": {\"version\": {\"qemu\": {\"major\": -1, \"minor\": 0, "
		   "\"micro\": 0}}}}\n",
		   PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open("{\"a\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", PEER_STAYS,
		   VMS_ERROR_PROTOCOL);
	check_open(GREETING, PEER_STAYS, VMS_ERROR_TIMEOUT);
	check_open(GREETING, PEER_CLOSES, VMS_ERROR_CLOSED);
	check_open(GREETING "{\"error\": {\"desc\": \"no\\n\\u001b[31m\"}, \"id\": 1}\n",
		   PEER_STAYS, VMS_ERROR_UNSUPPORTED);
	check_open(GREETING "{\"error\": 7, \"id\": 1}\n", PEER_STAYS, VMS_ERROR_UNSUPPORTED);
	check_open(GREETING "{\"id\": 1}\n", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open(GREETING "{\"return\": null, \"id\": 1}\n", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open(GREETING READY "{\"return\": 7, \"id\": 2}\n", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_open(GREETING READY "{\"return\": {\"running\": \"yes\"}, \"id\": 2}\n", PEER_STAYS,
		   VMS_ERROR_PROTOCOL);
	/* Somebody else's answer is none of ours. */
	check_open(GREETING "{\"return\": {}, \"id\": \"1\"}\n", PEER_STAYS, VMS_ERROR_TIMEOUT);
}

/* QEMU sends us what a client before us has asked for, which was killed. */
static void test_killed_client_before(void)
{
	static const char lines[] =
		"{\"event\": \"STOP\"}\r\n{\"return\": {}, \"id\": 90}\r\n"
		"{\"error\": {\"desc\": \"no\"}, \"id\": 91}\r\n" GREETING
		"{\"return\": {\"status\": \"paused\"}, \"id\": 92}\r\n" READY RUNNING;
	struct peer peer;
	struct vms_qmp qmp = { 0 };
	g_autoptr(GError) error = NULL;
	peer_start(&peer, &qmp.stream, lines, PEER_CLOSES);
	g_assert_true(vms_qmp_open(&qmp, &error));
	g_assert_true(qmp.running);
	vms_qmp_close(&qmp);
	g_string_free(peer_stop(&peer), TRUE);
	check_open("{\"return\": {}, \"id\": 90}\r\n", PEER_CLOSES, VMS_ERROR_CLOSED);
	check_open("{\"return\": {}, \"id\": 90}\r\n", PEER_STAYS, VMS_ERROR_BUSY);
}

/* Too deep, too long, without end. */
static void test_excess(void)
{
	static const struct {
		const char *begin;
		char filler;
		size_t count;
		enum vms_error code;
	} cases[] = {
		{ "", '[', 1000, VMS_ERROR_PROTOCOL },
		{ "{\"return\": \"", 'x', VMS_QMP_MESSAGE_MAX / 2, VMS_ERROR_CLOSED },
		{ "{\"return\": \"", 'x', VMS_QMP_MESSAGE_MAX, VMS_ERROR_PROTOCOL },
		{ "", ' ', VMS_QMP_MESSAGE_MAX + 65536, VMS_ERROR_PROTOCOL },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct peer peer;
		struct vms_qmp qmp = { 0 };
		g_autoptr(GError) error = NULL;
		g_autofree char *filler = g_strnfill(cases[i].count, cases[i].filler);
		g_autofree char *lines = g_strconcat(OPENED, cases[i].begin, filler, NULL);
		peer_start(&peer, &qmp.stream, lines, PEER_CLOSES);
		g_assert_true(vms_qmp_open(&qmp, &error));
		g_assert_null(vms_qmp_execute(&qmp, "stop", NULL, -1, &error));
		g_assert_error(error, VMS_ERROR, (int)cases[i].code);
		vms_qmp_close(&qmp);
		g_string_free(peer_stop(&peer), TRUE);
	}
}

/* The same conversation in pieces of any size, with events and foreign answers between. */
static void test_conversation(void)
{
	static const char lines[] =
		GREETING READY "{\"event\": \"STOP\"}" RUNNING
			       "{\"event\": \"STOP\", \"timestamp\": {\"seconds\": 1}}\r\n"
			       "{\"error\": {\"desc\": \"lexer was reset\"}}\r\n"
			       "{\"return\": {\"who\": \"the guard\"}, \"id\": \"guard-done\"}\r\n"
			       "{\"return\": {\"who\": \"an older command\"}, \"id\": 1}\r\n"
			       "{\"return\": \"one\\t\\u001b[1m\\r\\ntwo\\r\\n\", \"id\": 3}\r\n"
			       "{\"return\": [], \"id\": 4}\r\n"
			       "{\"event\": \"RESUME\"}\r\n{\"event\": \"RESET\"}\r\n"
			       "{\"event\": \"SHUTDOWN\"}\r\n{\"event\": 5}\r\n";
	static const size_t steps[] = { 1, 2, 3, 7, 64, SIZE_MAX };
	for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
		struct peer peer;
		struct vms_qmp qmp = { 0 };
		g_autoptr(GError) error = NULL;
		peer_start_long(&peer, &qmp.stream, g_bytes_new_static(lines, sizeof(lines) - 1),
				steps[i], 1, PEER_CLOSES);
		g_assert_true(vms_qmp_open(&qmp, &error));
		g_assert_cmpstr(qmp.version, ==, "10.0.2 (Debian)");
		g_assert_true(qmp.running);
		g_autofree char *text = vms_qmp_hmp(&qmp, "info \"something\"", &error);
		g_assert_cmpstr(text, ==, "one ?[1m\ntwo\n");
		g_assert_false(qmp.running);
		/* The human monitor answers in text. */
		g_assert_null(vms_qmp_hmp(&qmp, "info else", &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL);
		qmp.broken = false;
		peer_wait(&peer);
		g_assert_false(vms_qmp_poll(&qmp)); /* up to the end of the connection */
		g_assert_true(qmp.running && qmp.resets == 1 && qmp.has_shut_down);
		g_assert_cmpuint(qmp.resumes, ==, 1);
		vms_qmp_close(&qmp);
		g_autoptr(GString) heard = peer_stop(&peer);
		g_assert_nonnull(strstr(heard->str, "\"execute\":\"qmp_capabilities\""));
		g_assert_nonnull(strstr(heard->str, "\"info \\\"something\\\"\""));
	}
}

static void test_broken_stays_broken(void)
{
	struct peer peer;
	struct vms_qmp qmp = { 0 };
	g_autoptr(GError) error = NULL;
	peer_start(&peer, &qmp.stream, OPENED "garbage\n", PEER_CLOSES);
	g_assert_true(vms_qmp_open(&qmp, &error));
	g_assert_null(vms_qmp_execute(&qmp, "stop", NULL, -1, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL);
	g_clear_error(&error);
	g_assert_null(vms_qmp_execute(&qmp, "cont", NULL, -1, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CLOSED);
	g_assert_false(vms_qmp_poll(&qmp));
	vms_qmp_close(&qmp);
	g_autoptr(GString) heard = peer_stop(&peer);
	g_assert_null(strstr(heard->str, "cont"));
}

/*
 * Who gives up waits no longer, whatever time a peer has otherwise. It is late then, and gets
 * little time, until something comes from it: an answer that is not waited for any more, too.
 */
static void test_given_up(void)
{
	struct peer peer;
	struct vms_qmp qmp = { 0 };
	g_autoptr(GError) error = NULL;
	_Atomic uint64_t give_up_ns = 0;
	peer_start(&peer, &qmp.stream, OPENED, PEER_STAYS);
	g_assert_true(vms_qmp_open(&qmp, &error));
	peer_wait(&peer);
	qmp.stream.timeout_ms = G_MAXINT; /* three weeks */
	qmp.stream.give_up_ns = &give_up_ns;
	g_assert_cmpuint(vms_stream_deadline(&qmp.stream), >,
			 vms_clock_now_ns() + UINT64_C(1000000000000));
	give_up_ns = 1;
	g_assert_null(vms_qmp_execute(&qmp, "stop", NULL, -1, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT);
	g_clear_error(&error);

	give_up_ns = 0;
	g_assert_cmpuint(vms_stream_deadline(&qmp.stream), <,
			 vms_clock_now_ns() + UINT64_C(1000000000));
	g_assert_null(vms_qmp_execute(&qmp, "cont", NULL, -1, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT);
	g_clear_error(&error);

	static const char late[] = "{\"return\": {}, \"id\": 3}\n";
	g_assert_cmpint(write(peer.fd, late, strlen(late)), ==, strlen(late));
	g_assert_true(vms_qmp_poll(&qmp));
	g_assert_cmpuint(vms_stream_deadline(&qmp.stream), >,
			 vms_clock_now_ns() + UINT64_C(1000000000000));
	vms_qmp_close(&qmp);
	g_string_free(peer_stop(&peer), TRUE);
}

static void say(struct peer *peer, const char *line)
{
	g_assert_cmpint(write(peer->fd, line, strlen(line)), ==, strlen(line));
}

/* The answer to "query-migrate" in `qmp`, once it has come. */
static void check_answer(struct vms_qmp *qmp, const char *status)
{
	vms_autojson *answer = vms_qmp_take_answer(qmp);
	g_assert_cmpstr(vms_json_string(answer, "status"), ==, status);
	g_assert_null(vms_qmp_take_answer(qmp));
}

/* Nobody waits for the answer to a question. Whoever receives it notes it. */
static void test_question(void)
{
	struct peer peer;
	struct vms_qmp qmp = { 0 };
	g_autoptr(GError) error = NULL;
	peer_start(&peer, &qmp.stream, OPENED, PEER_STAYS);
	g_assert_true(vms_qmp_open(&qmp, &error));
	peer_wait(&peer);
	g_assert_true(vms_qmp_ask(&qmp, "query-migrate"));
	g_assert_null(vms_qmp_take_answer(&qmp));
	say(&peer, "{\"return\": {\"status\": \"active\"}, \"id\": 3}\n");
	check_answer(&qmp, "active");

	/* It comes before the answer to a command, and before events. */
	g_assert_true(vms_qmp_ask(&qmp, "query-migrate"));
	say(&peer, "{\"return\": {\"status\": \"setup\"}, \"id\": 4}\n{\"event\": \"STOP\"}\n"
		   "{\"return\": {}, \"id\": 5}\n");
	json_object_put(vms_qmp_execute(&qmp, "stop", NULL, -1, &error));
	g_assert_no_error(error);
	g_assert_cmpuint(qmp.stops, ==, 1);
	check_answer(&qmp, "setup");

	/* The answer to an earlier question is not the one to this question. */
	g_assert_true(vms_qmp_ask(&qmp, "query-migrate"));
	g_assert_true(vms_qmp_ask(&qmp, "query-migrate"));
	say(&peer, "{\"return\": {\"status\": \"old\"}, \"id\": 6}\n");
	g_assert_null(vms_qmp_take_answer(&qmp));
	say(&peer, "{\"return\": {\"status\": \"new\"}, \"id\": 7}\n");
	check_answer(&qmp, "new");

	g_assert_true(vms_qmp_ask(&qmp, "query-migrate"));
	say(&peer, "{\"error\": {\"desc\": \"no\"}, \"id\": 8}\n{\"return\": 1, \"id\": 8}\n");
	g_assert_null(vms_qmp_take_answer(&qmp));
	g_assert_true(vms_qmp_ask(&qmp, "query-migrate"));
	say(&peer, "{\"return\": {\"status\": \"left\"}, \"id\": 9}\n");
	g_assert_true(vms_qmp_poll(&qmp));
	vms_qmp_close(&qmp);
	g_string_free(peer_stop(&peer), TRUE);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/qmp/bad-peers", test_bad_peers);
	g_test_add_func("/qmp/killed-client-before", test_killed_client_before);
	g_test_add_func("/qmp/excess", test_excess);
	g_test_add_func("/qmp/conversation", test_conversation);
	g_test_add_func("/qmp/question", test_question);
	g_test_add_func("/qmp/broken-stays-broken", test_broken_stays_broken);
	g_test_add_func("/qmp/given-up", test_given_up);
	return g_test_run();
}
