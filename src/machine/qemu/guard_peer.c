/* SPDX-License-Identifier: MIT */
#include "machine/qemu/guard_peer.h"

#include "base/clock.h"
#include "machine/qemu/guard.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

struct received {
	size_t size;
	char text[1 << 16];
};

/* Static, because the watchdog has little stack. It has one thread. */
static struct received received;

void vms_peer_forget(void)
{
	received.size = 0;
}

size_t vms_peer_size(void)
{
	return received.size;
}

const char *vms_peer_end(void)
{
	return received.text + received.size;
}

bool vms_peer_send(int fd, const char *text)
{
	size_t size = strlen(text);
	while (size) {
		ssize_t n = send(fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		struct pollfd poller = { .fd = fd, .events = POLLOUT };
		if (n > 0) {
			text += n;
			size -= (size_t)n;
		} else if (n == 0 || errno != EAGAIN ||
			   poll(&poller, 1, 30 * VMS_GUARD_ANSWER_MS) <= 0) {
			return false;
		}
	}
	return true;
}

bool vms_peer_receive(int fd, bool peek)
{
	if (peek || received.size > sizeof(received.text) / 2) {
		size_t kept = peek ? 0 : sizeof(received.text) / 4;
		memmove(received.text, received.text + received.size - kept, kept);
		received.size = kept;
	}
	ssize_t n = recv(fd, received.text + received.size, sizeof(received.text) - received.size,
			 MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
	if (n > 0)
		received.size += (size_t)n;
	return n > 0 || (n < 0 && errno == EAGAIN);
}

const char *vms_peer_find(const char *text)
{
	return memmem(received.text, received.size, text, strlen(text));
}

const char *vms_peer_find_last(const char *text, const char *end)
{
	const char *at = received.text, *found = NULL;
	while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
		at += strlen(text);
		found = at - strlen(text);
	}
	return found;
}

unsigned vms_peer_count(const char *text)
{
	const char *at = received.text, *end = received.text + received.size;
	unsigned n = 0;
	while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
		at += strlen(text);
		n++;
	}
	return n;
}

enum vms_peer_answer vms_peer_wait(int fd, const char *mark, bool peek, int wait_ms)
{
	uint64_t end_ns = vms_clock_now_ns() + (uint64_t)wait_ms * 1000000;
	while (!vms_peer_find(mark)) {
		uint64_t now_ns = vms_clock_now_ns();
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		if (now_ns >= end_ns)
			return VMS_PEER_SILENT;
		/* What was peeked at stays in the socket, so poll would return at once. */
		int left_ms = (int)((end_ns - now_ns) / 1000000) + 1;
		if (poll(peek ? NULL : &poller, peek ? 0 : 1, peek ? 5 : left_ms) < 0)
			continue;
		if (!vms_peer_receive(fd, peek))
			return VMS_PEER_CLOSED;
	}
	return VMS_PEER_ANSWERED;
}
