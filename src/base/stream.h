/* SPDX-License-Identifier: MIT */
/*
 * A connected socket whose peer is not trusted. Every read and write has a deadline, and the buffer
 * of what was received has a fixed size.
 */
#pragma once

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* How long to wait for a peer's answer, unless `timeout_ms` of the stream is changed. */
#define VMS_STREAM_TIMEOUT_MS 5000
/* The same for one that owes an answer that was not waited for any longer. */
#define VMS_STREAM_LATE_MS 100

struct vms_stream {
	int fd;	    /* -1 once closed */
	char *peer; /* the peer's name in messages, e.g. "QMP socket /run/vm.qmp" */
	unsigned timeout_ms;
	/*
	 * When to give up waiting for the peer, in ns of CLOCK_MONOTONIC; 0: never. No wait lasts
	 * longer. It may change at any time, even during a wait. NULL: never.
	 */
	const _Atomic uint64_t *give_up_ns;
	atomic_bool is_late; /* the peer did not answer in time, and has sent nothing since */
	struct sockaddr_storage address; /* of the peer, set by vms_stream_connect */
	socklen_t address_size;
	size_t start, end; /* of the unread bytes in `buffer` */
	/*
	 * Called before the socket is connected, unless NULL. Returns 0, or a number of errno(3) to
	 * refuse the connection.
	 */
	int (*before_connect)(struct vms_stream *stream, void *data);
	void *data;
	uint8_t buffer[16384];
};

/*
 * Connects to `address`: HOST:PORT, or the path of a unix socket. `what` names the kind of peer.
 * Errors: INVALID_ARGUMENT (the path is too long), NOT_FOUND, PERMISSION, BUSY (the peer's queue of
 * clients is full), CLOSED (nobody listens there), TIMEOUT, IO.
 */
bool vms_stream_connect(struct vms_stream *stream, const char *what, const char *address,
			GError **error);
/* Connects to a unix socket that keeps packets apart (SOCK_SEQPACKET). Errors: as above. */
bool vms_stream_connect_packets(struct vms_stream *stream, const char *what, const char *path,
				GError **error);
/* Takes over a connected socket and the name of its peer. */
void vms_stream_init(struct vms_stream *stream, int fd, char *peer);
/* May be called twice, or on a zeroed stream that was never opened. */
void vms_stream_close(struct vms_stream *stream);

/* True if `address` is a path, false if it is HOST:PORT. */
bool vms_address_is_path(const char *address);

/*
 * The deadline of a request that begins now, in ns of CLOCK_MONOTONIC. A peer that is late gets
 * little time until it sends something again, so that whatever follows a timeout ends soon.
 */
uint64_t vms_stream_deadline(const struct vms_stream *stream);

/* Waits until one of the `events` of poll(2) has happened. Errors: TIMEOUT. */
bool vms_stream_wait(struct vms_stream *stream, short events, uint64_t deadline_ns, GError **error);

/*
 * Sends as much of `data` as the socket takes at once, and the descriptor `fd` along with it unless
 * that is -1. Returns what sendmsg(2) does. It takes no lock and allocates nothing.
 */
ssize_t vms_send_with_fd(int socket_fd, const void *data, size_t size, int fd);

/*
 * Writes all of `data`, and sends the descriptor `fd` along with it unless that is -1. Several
 * threads may write at once if the socket keeps packets apart. Errors: TIMEOUT, CLOSED.
 */
bool vms_stream_write(struct vms_stream *stream, const void *data, size_t size, int fd,
		      uint64_t deadline_ns, GError **error);

/*
 * Waits until there are unread bytes. With deadline 0 it receives what is there, without waiting,
 * and it is no error if there is nothing. Errors: TIMEOUT, CLOSED.
 */
bool vms_stream_fill(struct vms_stream *stream, uint64_t deadline_ns, GError **error);
/* How many received bytes are unread. */
static inline size_t vms_stream_unread(const struct vms_stream *stream)
{
	return stream->end - stream->start;
}
/* Waits for the next byte, and takes it. Errors: TIMEOUT, CLOSED. */
bool vms_stream_byte(struct vms_stream *stream, uint64_t deadline_ns, uint8_t *ret, GError **error);
