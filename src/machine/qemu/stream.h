/* SPDX-License-Identifier: MIT */
/*
 * A connected socket to a peer that is not trusted: every read and write ends
 * by a deadline, and what has been read but not used is bounded.
 */
#pragma once

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* How long a peer may take for one answer, unless a stream says otherwise. */
#define VMS_STREAM_TIMEOUT_MS 5000
/* The same for one that owes an answer that was not waited for any longer. */
#define VMS_STREAM_LATE_MS 100

struct vms_stream {
	int fd;	    /* -1 once closed */
	char *peer; /* what messages call it, e.g. "QMP socket /run/vm.qmp" */
	unsigned timeout_ms;
	/*
	 * Unless NULL, when whoever looks at the peer gives up (ns of CLOCK_MONOTONIC; 0: never):
	 * no wait lasts longer. It may change at any time, in waits, too.
	 */
	const _Atomic uint64_t *give_up_ns;
	atomic_bool is_late;		 /* it did not answer in time, and has sent nothing since */
	struct sockaddr_storage address; /* connected to, by vms_stream_connect */
	socklen_t address_size;
	size_t start, end; /* of what is unread in `buffer` */
	/* Called, unless NULL, with the socket before it is connected: 0, or why that must not be.
	 */
	int (*before_connect)(struct vms_stream *stream, void *data);
	void *data;
	uint8_t buffer[16384];
};

/*
 * Connects to `address`: HOST:PORT, or the path of a unix socket. `what` names
 * the kind of peer. Errors: NOT_FOUND, PERMISSION, BUSY (its queue of clients
 * is full), CLOSED (nobody listens there), TIMEOUT, IO.
 */
bool vms_stream_connect(struct vms_stream *stream, const char *what, const char *address,
			GError **error);
/* The same for a unix socket that keeps packets apart (SOCK_SEQPACKET). */
bool vms_stream_connect_packets(struct vms_stream *stream, const char *what, const char *path,
				GError **error);
/* Takes over a connected socket and the name of its peer. */
void vms_stream_init(struct vms_stream *stream, int fd, char *peer);
/* May be called twice, or on a zeroed stream that was never opened. */
void vms_stream_close(struct vms_stream *stream);

/* Is `address` a path rather than HOST:PORT? */
bool vms_address_is_path(const char *address);

/*
 * CLOCK_MONOTONIC in ns at which a request that begins now has taken too long. A peer that is late
 * gets little time until something comes from it: what follows a timeout is over soon.
 */
uint64_t vms_stream_deadline(const struct vms_stream *stream);

/* Waits for `events` of poll(2). Errors: TIMEOUT. */
bool vms_stream_wait(struct vms_stream *stream, short events, uint64_t deadline_ns, GError **error);

/*
 * Errors: TIMEOUT, CLOSED. `fd` is passed along with the data unless it is -1. Packets may be
 * written by several threads at once, bytes not.
 */
bool vms_stream_write(struct vms_stream *stream, const void *data, size_t size, int fd,
		      uint64_t deadline_ns, GError **error);

/*
 * Waits until something is unread. With deadline 0 it does not wait, and
 * nothing unread is no error. Errors: TIMEOUT, CLOSED.
 */
bool vms_stream_fill(struct vms_stream *stream, uint64_t deadline_ns, GError **error);
static inline size_t vms_stream_unread(const struct vms_stream *stream)
{
	return stream->end - stream->start;
}
/* The next byte, waiting for it. */
bool vms_stream_byte(struct vms_stream *stream, uint64_t deadline_ns, uint8_t *ret, GError **error);
