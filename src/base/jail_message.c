/* SPDX-License-Identifier: MIT */
#include "base/jail_message.h"
#include "base/clock.h"
#include <errno.h>
#include <glib.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLL_MS 1000 /* of one wait, at most */

/* Waits until something can be done. 0, or a number of errno(3). */
static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd poller = { .fd = fd, .events = events };
	for (;;) {
		const uint64_t now_ns = vms_clock_now_ns();
		if (now_ns >= deadline_ns)
			return ETIMEDOUT;
		const uint64_t left_ms = (deadline_ns - now_ns) / 1000000 + 1;
		const int timeout_ms = deadline_ns == UINT64_MAX ? -1 : (int)MIN(left_ms, POLL_MS);
		const int n = poll(&poller, 1, timeout_ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return errno;
	}
}

static bool is_passing(int number)
{
	return number == EINTR || number == EAGAIN || number == EWOULDBLOCK;
}

/* ---- sending ----------------------------------------------------------- */

static void add_descriptors(struct msghdr *header, const int *fds, size_t n)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(header);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(control), fds, n * sizeof(int));
	header->msg_controllen = CMSG_SPACE(n * sizeof(int));
}

static int send_bytes(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds,
		      uint64_t deadline_ns)
{
	union {
		char bytes[CMSG_SPACE(VMS_JAIL_FDS * sizeof(int))];
		struct cmsghdr alignment;
	} control = { 0 };
	const uint8_t *at = bytes;
	while (size > 0) {
		struct iovec part = { (void *)at, size };
		struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
		header.msg_control = n_fds ? control.bytes : NULL;
		if (n_fds) {
			header.msg_controllen = sizeof(control.bytes);
			add_descriptors(&header, fds, n_fds);
		}
		const ssize_t n = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && !is_passing(errno))
			return errno;
		if (n < 0) {
			const int failure = wait_for(fd, POLLOUT, deadline_ns);
			if (failure)
				return failure;
			continue;
		}
		at += n;
		size -= (size_t)n;
		n_fds = 0; /* they went with the first byte */
	}
	return 0;
}

int vms_jail_send(int fd, const struct vms_jail_message *message, const void *payload,
		  const int *fds, uint64_t deadline_ns)
{
	const int failure =
		send_bytes(fd, message, sizeof(*message), fds, message->n_fds, deadline_ns);
	return failure ? failure : send_bytes(fd, payload, message->size, NULL, 0, deadline_ns);
}

/* ---- receiving --------------------------------------------------------- */

static void take_descriptors(struct msghdr *header, int *fds, size_t *n_fds)
{
	for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control;
	     control = CMSG_NXTHDR(header, control)) {
		if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
			continue;
		const size_t n = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int received;
			memcpy(&received, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
			if (fds && *n_fds < VMS_JAIL_FDS)
				fds[(*n_fds)++] = received;
			else
				close(received);
		}
	}
}

/* Receives what there is, up to `size` bytes. 0, or a number of errno(3). */
static int receive_some(int fd, void *bytes, size_t size, int *fds, size_t *n_fds, size_t *ret)
{
	union {
		char bytes[CMSG_SPACE(VMS_JAIL_FDS * sizeof(int))];
		struct cmsghdr alignment;
	} control;
	struct iovec part = { bytes, size };
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	const ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno;
	take_descriptors(&header, fds, n_fds);
	*ret = (size_t)n;
	return n == 0 ? EPIPE : 0;
}

static int receive_all(int fd, void *bytes, size_t size, int *fds, size_t *n_fds,
		       uint64_t deadline_ns)
{
	uint8_t *at = bytes;
	while (size > 0) {
		size_t n = 0;
		int failure = receive_some(fd, at, size, fds, n_fds, &n);
		if (failure && is_passing(failure))
			failure = wait_for(fd, POLLIN, deadline_ns);
		if (failure)
			return failure;
		at += n;
		size -= n;
	}
	return 0;
}

int vms_jail_receive(int fd, struct vms_jail_message *message, int *fds, size_t *n_fds,
		     uint64_t deadline_ns)
{
	size_t none = 0;
	return receive_all(fd, message, sizeof(*message), fds, n_fds ? n_fds : &none, deadline_ns);
}

int vms_jail_receive_bytes(int fd, void *bytes, size_t size, uint64_t deadline_ns)
{
	size_t none = 0;
	return receive_all(fd, bytes, size, NULL, &none, deadline_ns);
}
