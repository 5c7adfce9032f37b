/* SPDX-License-Identifier: MIT */
/* With clients that are rude: one thread serves all, so the test is the clients and the loop. */
#include "base/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_SIZE (4 << 20) /* more than a socket holds */
#define ROUNDS	  300

struct fixture {
	struct vms_http_server *server;
	struct sockaddr_in address;
	char *body;
	bool refuses;
	unsigned connected, answered, finished;
};

static bool may_connect(int fd, void *data)
{
	struct fixture *fixture = data;
	g_assert_cmpint(fd, >=, 0);
	fixture->connected++;
	return !fixture->refuses;
}

static void answer_request(const struct vms_http_request *request, struct vms_http_answer *ret,
			   void *data)
{
	struct fixture *fixture = data;
	fixture->answered++;
	*ret = (struct vms_http_answer) { .head = g_strdup("head."), .kind = 7 };
	if (request && vms_http_request_is(request->path, "/long")) {
		ret->body = fixture->body;
		ret->body_size = BODY_SIZE;
	}
}

static void finish_answer(const struct vms_http_answer *answer, void *data)
{
	struct fixture *fixture = data;
	g_assert_cmpuint(answer->kind, ==, 7);
	fixture->finished++;
}

static const struct vms_http_calls calls = { may_connect, answer_request, finish_answer };

static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(fixture->address);
	fixture->address = (struct sockaddr_in) { .sin_family = AF_INET,
						  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	g_assert_cmpint(bind(listener, (struct sockaddr *)&fixture->address, size), ==, 0);
	g_assert_cmpint(listen(listener, SOMAXCONN), ==, 0);
	g_assert_cmpint(getsockname(listener, (struct sockaddr *)&fixture->address, &size), ==, 0);
	fixture->body = g_strnfill(BODY_SIZE, 'b');
	fixture->server = vms_http_server_new(listener, &calls, fixture);
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	vms_http_server_free(fixture->server);
	g_assert_cmpuint(fixture->finished, ==, fixture->answered);
	g_free(fixture->body);
}

/* Lets the server do what it can do now. */
static void run_server(void)
{
	while (g_main_context_iteration(NULL, FALSE))
		;
}

static int connect_client(const struct fixture *fixture)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(
		connect(fd, (const struct sockaddr *)&fixture->address, sizeof(fixture->address)),
		==, 0);
	g_assert_cmpint(fcntl(fd, F_SETFL, O_NONBLOCK), ==, 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	g_assert_cmpint(send(fd, text, strlen(text), MSG_NOSIGNAL), ==, (gssize)strlen(text));
}

/* Reads until the server closes; the number of bytes, or -1 if the connection is reset. */
static gssize read_all(int fd)
{
	char part[65536];
	gssize all = 0;
	for (;;) {
		const ssize_t n = recv(fd, part, sizeof(part), 0);
		if (n > 0)
			all += n;
		else if (n == 0)
			return all;
		else if (errno != EAGAIN)
			return -1;
		g_main_context_iteration(NULL, n < 0);
	}
}

static void check_honest_client(const struct fixture *fixture, const char *path, gssize size)
{
	g_autofree char *request = g_strdup_printf("GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
	const int fd = connect_client(fixture);
	send_text(fd, request);
	g_assert_cmpint(read_all(fd), ==, size);
	close(fd);
}

static void test_answers(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	check_honest_client(fixture, "/", 5);
	check_honest_client(fixture, "/long", 5 + BODY_SIZE);
	g_assert_cmpuint(fixture->answered, ==, 2);
}

/* One byte at a time; and more than a request may be, which is answered, and read to its end. */
static void test_pieces(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const char *request = "GET / HTTP/1.1\r\n\r\n";
	int fd = connect_client(fixture);
	for (; *request; request++) {
		g_assert_cmpuint(fixture->answered, ==, 0);
		g_assert_cmpint(send(fd, request, 1, 0), ==, 1);
		run_server();
	}
	g_assert_cmpint(read_all(fd), ==, 5);
	close(fd);
	g_autofree char *long_request = g_strnfill((gsize)4 * VMS_HTTP_REQUEST_LIMIT, 'x');
	fd = connect_client(fixture);
	send_text(fd, long_request);
	g_assert_cmpint(read_all(fd), ==, 5);
	close(fd);
}

/* Connections that swing about the limit: each sends one byte and leaves. */
static void test_swing(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int crowd[VMS_HTTP_CONNECTIONS + 32];
	for (unsigned round = 0; round < ROUNDS; round++) {
		const size_t n = VMS_HTTP_CONNECTIONS - 4 + round % 36;
		for (size_t i = 0; i < n; i++) {
			crowd[i] = connect_client(fixture);
			send_text(crowd[i], "G");
			if (i % 16 == round % 16)
				run_server();
		}
		for (size_t i = 0; i < n; i++)
			close(crowd[i]);
		if (round % 8 == 0)
			check_honest_client(fixture, "/", 5);
	}
	check_honest_client(fixture, "/long", 5 + BODY_SIZE);
}

/* Those above the limit are not even asked who they are until there is room. */
static void test_limit(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int crowd[VMS_HTTP_CONNECTIONS + 10];
	for (size_t i = 0; i < G_N_ELEMENTS(crowd); i++)
		crowd[i] = connect_client(fixture);
	run_server();
	g_assert_cmpuint(fixture->connected, ==, VMS_HTTP_CONNECTIONS);
	for (size_t i = 0; i < 10; i++)
		close(crowd[i]);
	run_server();
	g_assert_cmpuint(fixture->connected, ==, G_N_ELEMENTS(crowd));
	for (size_t i = 10; i < G_N_ELEMENTS(crowd); i++)
		close(crowd[i]);
	check_honest_client(fixture, "/", 5);
}

/* Nothing of a stranger's request is read, and no number of them counts. */
static void test_strangers(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int crowd[1000];
	fixture->refuses = true;
	for (size_t i = 0; i < G_N_ELEMENTS(crowd); i++) {
		crowd[i] = connect_client(fixture);
		send_text(crowd[i], "GET / HTTP/1.1\r\n\r\n");
		if (i % 100 == 0)
			run_server();
	}
	run_server();
	for (size_t i = 0; i < G_N_ELEMENTS(crowd); i++) {
		g_assert_cmpint(read_all(crowd[i]), ==, -1);
		close(crowd[i]);
	}
	g_assert_cmpuint(fixture->answered, ==, 0);
	g_assert_cmpuint(fixture->connected, ==, G_N_ELEMENTS(crowd));
	fixture->refuses = false;
	check_honest_client(fixture, "/", 5);
}

/* A client that leaves, and a server that ends, in the middle of an answer. */
static void test_broken_off(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int fd = connect_client(fixture);
	send_text(fd, "GET /long HTTP/1.1\r\n\r\n");
	run_server();
	g_assert_cmpuint(fixture->answered, ==, 1);
	g_assert_cmpuint(fixture->finished, ==, 0);
	close(fd);
	run_server();
	g_assert_cmpuint(fixture->finished, ==, 1);
	fd = connect_client(fixture);
	send_text(fd, "GET /long HTTP/1.1\r\n\r\n");
	run_server();
	g_assert_cmpuint(fixture->answered, ==, 2);
	close(fd);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
	g_test_add("/http-server/" name, struct fixture, NULL, set_up, function, tear_down)
	ADD("answers", test_answers);
	ADD("pieces", test_pieces);
	ADD("swing", test_swing);
	ADD("limit", test_limit);
	ADD("strangers", test_strangers);
	ADD("broken-off", test_broken_off);
	return g_test_run();
}
