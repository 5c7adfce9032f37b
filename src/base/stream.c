/* SPDX-License-Identifier: MIT */
#include "base/stream.h"

#include "base/clock.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>
#include <vmscope/error.h>

/* How often a wait looks whether it is given up. */
#define LOOK_NS UINT64_C(50000000)

bool vms_address_is_path(const char *address)
{
	return strchr(address, '/') || !strchr(address, ':');
}

void vms_stream_init(struct vms_stream *stream, int fd, char *peer)
{
	stream->fd = fd;
	stream->peer = peer;
	stream->timeout_ms = VMS_STREAM_TIMEOUT_MS;
	stream->start = stream->end = 0;
	stream->give_up_ns = NULL;
	stream->is_late = false;
}

void vms_stream_close(struct vms_stream *stream)
{
	if (!stream->peer)
		return;
	if (stream->fd >= 0)
		close(stream->fd);
	stream->fd = -1;
	g_clear_pointer(&stream->peer, g_free);
}

uint64_t vms_stream_deadline(const struct vms_stream *stream)
{
	unsigned ms =
		stream->is_late ? MIN(stream->timeout_ms, VMS_STREAM_LATE_MS) : stream->timeout_ms;
	return vms_clock_now_ns() + (uint64_t)ms * 1000000;
}

/* How long there is to wait, in ns. */
static uint64_t time_left(const struct vms_stream *stream, uint64_t deadline_ns)
{
	uint64_t now_ns = vms_clock_now_ns();
	uint64_t give_up_ns = stream->give_up_ns ? atomic_load(stream->give_up_ns) : 0;
	if (give_up_ns > 0)
		deadline_ns = MIN(deadline_ns, give_up_ns);
	return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

bool vms_stream_wait(struct vms_stream *stream, short events, uint64_t deadline_ns, GError **error)
{
	for (;;) {
		uint64_t left_ns = time_left(stream, deadline_ns);
		uint64_t slice_ns = stream->give_up_ns ? MIN(left_ns, LOOK_NS) : left_ns;
		struct pollfd poller = { .fd = stream->fd, .events = events };
		int ready = poll(&poller, 1, (int)MIN((slice_ns + 999999) / 1000000, G_MAXINT));
		if (ready > 0)
			return true;
		if (left_ns > 0)
			continue;
		stream->is_late = true;
		g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
			    "%s did not answer in time: it may be overloaded or stopped",
			    stream->peer);
		return false;
	}
}

static void set_closed(const struct vms_stream *stream, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED, "%s: the connection was closed",
		    stream->peer);
}

ssize_t vms_send_with_fd(int socket_fd, const void *data, size_t size, int fd)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = size };
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fd >= 0) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	}
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool vms_stream_write(struct vms_stream *stream, const void *data, size_t size, int fd,
		      uint64_t deadline_ns, GError **error)
{
	const uint8_t *bytes = data;
	while (size) {
		ssize_t n = vms_send_with_fd(stream->fd, bytes, size, fd);
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
			fd = -1;
		} else if (n < 0 && errno == EAGAIN) {
			if (!vms_stream_wait(stream, POLLOUT, deadline_ns, error))
				return false;
		} else if (n < 0 && errno != EINTR) {
			set_closed(stream, error);
			return false;
		}
	}
	return true;
}

bool vms_stream_fill(struct vms_stream *stream, uint64_t deadline_ns, GError **error)
{
	if (stream->start < stream->end)
		return true;
	for (;;) {
		ssize_t n = recv(stream->fd, stream->buffer, sizeof(stream->buffer), MSG_DONTWAIT);
		if (n > 0) {
			stream->start = 0;
			stream->end = (size_t)n;
			stream->is_late = false;
			return true;
		}
		if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			set_closed(stream, error);
			return false;
		}
		if (!deadline_ns)
			return true;
		if (!vms_stream_wait(stream, POLLIN, deadline_ns, error))
			return false;
	}
}

bool vms_stream_byte(struct vms_stream *stream, uint64_t deadline_ns, uint8_t *ret, GError **error)
{
	if (!vms_stream_fill(stream, deadline_ns, error))
		return false;
	*ret = stream->buffer[stream->start++];
	return true;
}

static void set_connect_error(const struct vms_stream *stream, int cause, GError **error)
{
	enum vms_error code = VMS_ERROR_IO;
	const char *hint = "";
	if (cause == ENOENT) {
		code = VMS_ERROR_NOT_FOUND;
	} else if (cause == EACCES || cause == EPERM) {
		code = VMS_ERROR_PERMISSION;
		hint = "; run as the user that owns it, or as root";
	} else if (cause == EAGAIN) {
		code = VMS_ERROR_BUSY;
		hint = "; another client is using it, and more are waiting";
	} else if (cause == ECONNREFUSED) {
		code = VMS_ERROR_CLOSED;
		hint = "; nothing listens there";
	} else if (cause == ETIMEDOUT) {
		code = VMS_ERROR_TIMEOUT;
	}
	g_set_error(error, VMS_ERROR, code, "cannot connect to %s: %s%s", stream->peer,
		    g_strerror(cause), hint);
}

/* Opens a socket and connects it. Returns 0 or a number of errno(3). */
static int connect_socket(struct vms_stream *stream, int type, const struct sockaddr *address,
			  socklen_t size, uint64_t deadline_ns)
{
	memcpy(&stream->address, address, size);
	stream->address_size = size;
	stream->fd = socket(address->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (stream->fd < 0)
		return errno;
	int cause = stream->before_connect ? stream->before_connect(stream, stream->data) : 0;
	if (cause == 0) {
		if (connect(stream->fd, address, size) == 0)
			return 0;
		cause = errno;
	}
	if (cause == EINPROGRESS) {
		socklen_t length = sizeof(cause);
		if (!vms_stream_wait(stream, POLLOUT, deadline_ns, NULL))
			cause = ETIMEDOUT;
		else if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &cause, &length) < 0)
			cause = errno;
		if (cause == 0)
			return 0;
	}
	close(stream->fd);
	stream->fd = -1;
	return cause;
}

static bool connect_unix(struct vms_stream *stream, int type, const char *path, GError **error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address.sun_path)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot connect to %s: its path is longer than %zu bytes, the limit of "
			    "unix sockets; use a relative path",
			    stream->peer, sizeof(address.sun_path) - 1);
		return false;
	}
	strcpy(address.sun_path, path);
	int cause = connect_socket(stream, type, (struct sockaddr *)&address, sizeof(address),
				   vms_stream_deadline(stream));
	if (cause)
		set_connect_error(stream, cause, error);
	return cause == 0;
}

static bool connect_tcp(struct vms_stream *stream, const char *address, GError **error)
{
	const char *colon = strrchr(address, ':');
	g_autofree char *host = g_strndup(address, (size_t)(colon - address));
	size_t length = strlen(host);
	if (length >= 2 && host[0] == '[' && host[length - 1] == ']') { /* [::1]:4444 */
		host[length - 1] = 0;
		memmove(host, host + 1, length - 1);
	}
	/* getaddrinfo() takes any number, and the connection its last 16 bits. */
	guint64 port;
	if (g_ascii_isdigit(colon[1]) &&
	    !g_ascii_string_to_unsigned(colon + 1, 10, 1, UINT16_MAX, &port, NULL)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot connect to %s: its port must be from 1 to %u", stream->peer,
			    UINT16_MAX);
		return false;
	}
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	int failed = getaddrinfo(*host ? host : "localhost", colon + 1, &hints, &found);
	if (failed) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "cannot connect to %s: %s",
			    stream->peer, gai_strerror(failed));
		return false;
	}
	int cause = ECONNREFUSED;
	uint64_t deadline_ns = vms_stream_deadline(stream);
	for (struct addrinfo *i = found; i && cause; i = i->ai_next)
		cause = connect_socket(stream, SOCK_STREAM, i->ai_addr, i->ai_addrlen, deadline_ns);
	freeaddrinfo(found);
	if (cause)
		set_connect_error(stream, cause, error);
	else
		setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &(int) { 1 }, sizeof(int));
	return cause == 0;
}

bool vms_stream_connect(struct vms_stream *stream, const char *what, const char *address,
			GError **error)
{
	vms_stream_init(stream, -1, g_strdup_printf("%s %s", what, address));
	bool connected = vms_address_is_path(address)
				 ? connect_unix(stream, SOCK_STREAM, address, error)
				 : connect_tcp(stream, address, error);
	if (!connected)
		vms_stream_close(stream);
	return connected;
}

bool vms_stream_connect_packets(struct vms_stream *stream, const char *what, const char *path,
				GError **error)
{
	vms_stream_init(stream, -1, g_strdup_printf("%s %s", what, path));
	bool connected = connect_unix(stream, SOCK_SEQPACKET, path, error);
	if (!connected)
		vms_stream_close(stream);
	return connected;
}
