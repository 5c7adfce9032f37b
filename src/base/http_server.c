/* SPDX-License-Identifier: MIT */
#include "base/http_server.h"

#include "base/clock.h"
#include <errno.h>
#include <glib-unix.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECOND_NS  UINT64_C(1000000000)
#define REQUEST_NS (5 * SECOND_NS)
#define SEND_NS	   (30 * SECOND_NS) /* between two parts of an answer that the client takes */
#define DRAIN_NS   (2 * SECOND_NS)
#define TICK_MS	   250 /* how late a deadline may be noticed */
/* How many connections to accept before those that are open have their turn. */
#define ACCEPTS_PER_TURN 64

enum state {
	READING, /* the request */
	SENDING, /* the answer */
	/*
	 * All is sent. What the client still sends is read and dropped: closing a socket with
	 * unread bytes would reset the connection, and the client might lose the answer.
	 */
	DRAINING,
};

struct connection {
	struct vms_http_server *server;
	int fd;
	guint watch; /* the GSource */
	enum state state;
	uint64_t deadline_ns;
	uint8_t request[VMS_HTTP_REQUEST_LIMIT];
	size_t request_size;
	struct vms_http_answer answer; /* while SENDING */
	size_t sent;		       /* bytes of head and body together */
};

struct vms_http_server {
	const struct vms_http_calls *calls;
	void *data;
	int listener;
	guint listener_watch; /* 0: no connections are accepted now */
	guint ticks; /* a timer that looks at the deadlines; 0: there is nothing to look at */
	GPtrArray *connections;
};

static void accept_again(struct vms_http_server *server);

/* ---- connections -------------------------------------------------------- */

static void finish_answer(struct connection *connection)
{
	struct vms_http_server *server = connection->server;
	if (connection->state == SENDING)
		server->calls->finish(&connection->answer, server->data);
	g_clear_pointer(&connection->answer.head, g_free);
}

static void free_connection(gpointer data)
{
	struct connection *connection = data;
	finish_answer(connection);
	g_source_remove(connection->watch);
	close(connection->fd);
	g_free(connection);
}

static void close_connection(struct connection *connection)
{
	struct vms_http_server *server = connection->server;
	g_ptr_array_remove_fast(server->connections, connection);
	accept_again(server);
}

/* Has `step` called when the socket is ready for it. It has until the deadline. */
static void await(struct connection *connection, GIOCondition condition, GUnixFDSourceFunc step,
		  uint64_t limit_ns)
{
	if (connection->watch)
		g_source_remove(connection->watch);
	connection->watch = g_unix_fd_add(connection->fd, condition, step, connection);
	connection->deadline_ns = vms_clock_now_ns() + limit_ns;
}

static bool is_transient(int number)
{
	return number == EAGAIN || number == EINTR;
}

static gboolean drain(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer data)
{
	char dropped[4096];
	const ssize_t n = recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && !is_transient(errno)))
		close_connection(data);
	return G_SOURCE_CONTINUE;
}

static gboolean send_answer(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer data)
{
	struct connection *connection = data;
	const struct vms_http_answer *answer = &connection->answer;
	const size_t head_size = strlen(answer->head);
	const size_t of_head = MIN(connection->sent, head_size);
	const size_t of_body = connection->sent - of_head;
	struct iovec parts[] = {
		{ answer->head + of_head, head_size - of_head },
		{ (char *)answer->body + of_body, answer->body_size - of_body },
	};
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = G_N_ELEMENTS(parts) };
	const ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0) {
		if (!is_transient(errno))
			close_connection(connection);
		return G_SOURCE_CONTINUE;
	}
	connection->sent += (size_t)n;
	connection->deadline_ns = vms_clock_now_ns() + SEND_NS;
	if (connection->sent < head_size + answer->body_size)
		return G_SOURCE_CONTINUE;
	finish_answer(connection);
	connection->state = DRAINING;
	shutdown(fd, SHUT_WR);
	await(connection, G_IO_IN, drain, DRAIN_NS);
	return G_SOURCE_CONTINUE;
}

static gboolean read_request(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer data)
{
	struct connection *connection = data;
	struct vms_http_server *server = connection->server;
	struct vms_http_request request;
	const ssize_t n =
		recv(fd, connection->request + connection->request_size,
		     sizeof(connection->request) - connection->request_size, MSG_DONTWAIT);
	if (n < 0 && is_transient(errno))
		return G_SOURCE_CONTINUE;
	if (n <= 0) {
		close_connection(connection);
		return G_SOURCE_CONTINUE;
	}
	connection->request_size += (size_t)n;
	const enum vms_http_step step = vms_http_request_parse(
		(struct vms_bytes) { connection->request, connection->request_size }, &request);
	if (step == VMS_HTTP_INCOMPLETE)
		return G_SOURCE_CONTINUE;
	server->calls->answer(step == VMS_HTTP_COMPLETE ? &request : NULL, &connection->answer,
			      server->data);
	if (!connection->answer.body)
		connection->answer.body = "";
	connection->state = SENDING;
	await(connection, G_IO_OUT, send_answer, SEND_NS);
	return G_SOURCE_CONTINUE;
}

/* ---- deadlines ------------------------------------------------------------ */

static gboolean close_late_connections(gpointer data)
{
	struct vms_http_server *server = data;
	const uint64_t now_ns = vms_clock_now_ns();
	for (guint i = server->connections->len; i > 0; i--) {
		struct connection *connection = server->connections->pdata[i - 1];
		if (now_ns >= connection->deadline_ns)
			close_connection(connection);
	}
	accept_again(server);
	if (server->connections->len > 0 || !server->listener_watch)
		return G_SOURCE_CONTINUE;
	server->ticks = 0;
	return G_SOURCE_REMOVE;
}

static void start_ticks(struct vms_http_server *server)
{
	if (!server->ticks)
		server->ticks = g_timeout_add(TICK_MS, close_late_connections, server);
}

/* ---- accepting ------------------------------------------------------------ */

static void add_connection(struct vms_http_server *server, int fd)
{
	struct connection *connection = g_new0(struct connection, 1);
	connection->server = server;
	connection->fd = fd;
	await(connection, G_IO_IN, read_request, REQUEST_NS);
	g_ptr_array_add(server->connections, connection);
	start_ticks(server);
}

/* Ends a connection at once, and leaves nothing of it in the kernel. */
static void reset_connection(int fd)
{
	const struct linger at_once = { .l_onoff = 1 };
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

static bool is_full(const struct vms_http_server *server)
{
	return server->connections->len >= VMS_HTTP_CONNECTIONS;
}

/*
 * Stops accepting at the limit, until a connection ends; and if there is no descriptor or memory
 * for one more, until the next tick: the waiting one would be reported again at once.
 */
static gboolean accept_connections(gint listener, GIOCondition condition G_GNUC_UNUSED,
				   gpointer data)
{
	struct vms_http_server *server = data;
	for (unsigned i = 0; i < ACCEPTS_PER_TURN && !is_full(server); i++) {
		const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (is_transient(errno) || errno == ECONNABORTED))
			return G_SOURCE_CONTINUE;
		if (fd < 0) {
			start_ticks(server);
			server->listener_watch = 0;
			return G_SOURCE_REMOVE;
		}
		if (server->calls->may_connect(fd, server->data))
			add_connection(server, fd);
		else
			reset_connection(fd);
	}
	if (!is_full(server))
		return G_SOURCE_CONTINUE;
	server->listener_watch = 0;
	return G_SOURCE_REMOVE;
}

static void accept_again(struct vms_http_server *server)
{
	if (!server->listener_watch && !is_full(server))
		server->listener_watch =
			g_unix_fd_add(server->listener, G_IO_IN, accept_connections, server);
}

/* ---- the server ----------------------------------------------------------- */

struct vms_http_server *vms_http_server_new(int listener, const struct vms_http_calls *calls,
					    void *data)
{
	struct vms_http_server *server = g_new0(struct vms_http_server, 1);
	server->calls = calls;
	server->data = data;
	server->listener = listener;
	server->connections = g_ptr_array_new_with_free_func(free_connection);
	accept_again(server);
	return server;
}

void vms_http_server_free(struct vms_http_server *server)
{
	if (!server)
		return;
	if (server->listener_watch)
		g_source_remove(server->listener_watch);
	if (server->ticks)
		g_source_remove(server->ticks);
	g_ptr_array_unref(server->connections);
	close(server->listener);
	g_free(server);
}
