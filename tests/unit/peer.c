/* SPDX-License-Identifier: MIT */
#include "peer.h"
#include <sys/socket.h>
#include <unistd.h>

#define BUFFERED 4096 /* any socket takes so much */

static gpointer say(gpointer data)
{
	struct peer *peer = data;
	size_t size;
	const char *lines = g_bytes_get_data(peer->lines, &size);
	for (size_t i = 0; i < peer->repeats; i++) {
		for (size_t done = 0; done < size;) {
			size_t part = MIN(peer->step, size - done);
			ssize_t n = send(peer->fd, lines + done, part, MSG_NOSIGNAL);
			if (n <= 0)
				return NULL;
			done += (size_t)n;
		}
	}
	if (peer->end == PEER_CLOSES)
		shutdown(peer->fd, SHUT_WR);
	return NULL;
}

void peer_start_long(struct peer *peer, struct vms_stream *stream, GBytes *lines, size_t step,
		     size_t repeats, enum peer_end end)
{
	int ends[2];
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
	*peer = (struct peer) {
		.fd = ends[1], .lines = lines, .step = step, .repeats = repeats, .end = end
	};
	vms_stream_init(stream, ends[0], g_strdup("test peer"));
	stream->timeout_ms = end == PEER_STAYS ? PEER_SILENCE_MS : PEER_PATIENCE_MS;
	/* What the socket takes at once is there before it is asked for: no race on a busy host. */
	if (step == SIZE_MAX && repeats == 1 && g_bytes_get_size(lines) <= BUFFERED)
		say(peer);
	else
		peer->thread = g_thread_new("peer", say, peer);
}

void peer_start(struct peer *peer, struct vms_stream *stream, const char *lines, enum peer_end end)
{
	peer_start_long(peer, stream, g_bytes_new(lines, strlen(lines)), SIZE_MAX, 1, end);
}

void peer_wait(struct peer *peer)
{
	if (peer->thread)
		g_thread_join(g_steal_pointer(&peer->thread));
}

GString *peer_stop(struct peer *peer)
{
	GString *heard = g_string_new(NULL);
	char buf[4096];
	ssize_t n;
	peer_wait(peer);
	while ((n = recv(peer->fd, buf, sizeof(buf), 0)) > 0)
		g_string_append_len(heard, buf, n);
	close(peer->fd);
	g_bytes_unref(peer->lines);
	return heard;
}
