/* SPDX-License-Identifier: MIT */
/* A peer that says what a fuzzer has found, and then nothing more. */
#pragma once

#include "base/stream.h"
#include <sys/socket.h>
#include <unistd.h>

/* What does not fit into the socket at once is left out. Returns the peer's end. */
static inline int fuzz_peer_start(struct vms_stream *stream, const uint8_t *data, size_t size)
{
	int ends[2];
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ==, 0);
	vms_stream_init(stream, ends[0], g_strdup("peer"));
	if (send(ends[1], data, size, MSG_DONTWAIT) < 0)
		g_assert_cmpuint(size, >, 0);
	shutdown(ends[1], SHUT_WR);
	return ends[1];
}

static inline void fuzz_peer_stop(int peer)
{
	close(peer);
}
