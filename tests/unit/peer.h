/* SPDX-License-Identifier: MIT */
/* The other end of a socket, played by a test: it says its lines whatever it hears. */
#pragma once

#include "base/stream.h"

/* So long does a client wait for a peer that stays silent on purpose. */
#define PEER_SILENCE_MS 100
/* And for one that answers: a slow machine must not matter. */
#define PEER_PATIENCE_MS 60000

enum peer_end {
	PEER_CLOSES, /* after its lines */
	PEER_STAYS,  /* silent after its lines */
};

struct peer {
	int fd;
	GThread *thread; /* that says the lines; NULL when they are said */
	GBytes *lines;
	size_t step; /* bytes to say at once */
	size_t repeats;
	enum peer_end end;
};

/* Connects `stream` to a peer that says `lines`, `repeats` times, `step` bytes at once. */
void peer_start_long(struct peer *peer, struct vms_stream *stream, GBytes *lines, size_t step,
		     size_t repeats, enum peer_end end);
void peer_start(struct peer *peer, struct vms_stream *stream, const char *lines, enum peer_end end);
/* Waits until everything is said. */
void peer_wait(struct peer *peer);
/* Ends it, after the stream was closed; what it heard, as far as it was not read before. */
GString *peer_stop(struct peer *peer);
