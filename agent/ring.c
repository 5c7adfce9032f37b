/* SPDX-License-Identifier: MIT */
#include "agent/ring.h"
#include "base/clock.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NONE	    UINT64_MAX
#define MAX_WAIT_NS 2000000000ULL /* how long to wait for room */
#define ANSWER_NS   500000000ULL  /* how long to wait for an answer */
#define PATIENCE_NS 5000000000ULL /* the same if `patient` */
#define HEADER	    sizeof(struct vms_agent_block)

static uint64_t get_max_block(const struct vms_ring *ring)
{
	return ring->size / 8;
}

static void *get_position(const struct vms_ring *ring, uint64_t position)
{
	return ring->data + (position & (ring->size - 1));
}

void vms_ring_init(struct vms_ring *ring, struct vms_agent_ring *shared, void *data, uint64_t size,
		   int wake)
{
	*ring = (struct vms_ring) {
		.shared = shared, .data = data, .size = size, .open = NONE, .wake = wake
	};
}

void vms_ring_flush(struct vms_ring *ring)
{
	ring->signalled = ring->head;
	/* Fails if the client is gone, or has not read the last byte yet. */
	if (send(ring->wake, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

/* Returns the end of the free room. An eighth of the ring before the client's tail stays free. */
static uint64_t find_room_end(struct vms_ring *ring)
{
	uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);
	if (tail >= ring->tail && tail <= ring->head && tail % VMS_AGENT_UNIT == 0)
		ring->tail = tail;
	return ring->tail + ring->size - get_max_block(ring);
}

static uint32_t *tail_futex(struct vms_ring *ring)
{
	uint32_t *halves = (uint32_t *)&ring->shared->tail;
	return halves + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* Waits until the tail may have moved, for `ns` at most. */
static void wait_for_tail(struct vms_ring *ring, uint64_t ns)
{
	struct timespec timeout = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	syscall(SYS_futex, tail_futex(ring), FUTEX_WAIT, (uint32_t)ring->tail, &timeout, NULL, 0);
}

static bool has_room(struct vms_ring *ring, uint64_t need)
{
	return ring->head + need <= find_room_end(ring);
}

static bool make_room(struct vms_ring *ring, uint64_t need)
{
	if (has_room(ring, need)) {
		ring->stalled = false;
		return true;
	}
	if (ring->stalled)
		return false;
	vms_ring_flush(ring);
	uint64_t now = vms_clock_now_ns(), end = now + MAX_WAIT_NS;
	for (; now < end && !atomic_load(&ring->abandoned); now = vms_clock_now_ns()) {
		wait_for_tail(ring, end - now);
		if (has_room(ring, need))
			return true;
	}
	ring->stalled = true;
	return false;
}

void vms_ring_abandon(struct vms_ring *ring)
{
	atomic_store(&ring->abandoned, true);
	syscall(SYS_futex, tail_futex(ring), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Writes bytes at a position beyond the head. The head does not move. */
static void write_bytes(struct vms_ring *ring, uint64_t position, const void *bytes, size_t size)
{
	size_t begin = position & (ring->size - 1);
	size_t first = size < ring->size - begin ? size : ring->size - begin;
	memcpy(ring->data + begin, bytes, first);
	memcpy(ring->data, (const unsigned char *)bytes + first, size - first);
}

static void publish_head(struct vms_ring *ring, uint64_t head)
{
	ring->head = head;
	atomic_store_explicit(&ring->shared->head, head, memory_order_release);
}

/* The size is in the first 16 bytes of the header, which never wrap. */
static void close_block(struct vms_ring *ring)
{
	if (ring->open == NONE)
		return;
	struct vms_agent_block *block = get_position(ring, ring->open);
	atomic_store_explicit(&block->size, (uint32_t)(ring->head - ring->open - HEADER),
			      memory_order_release);
	ring->open = NONE;
	ring->limit = ring->head;
}

static void open_block(struct vms_ring *ring)
{
	struct vms_agent_block block = {
		.kind = VMS_AGENT_APPENDED,
		.stream = ring->stream,
		.sequence = (*ring->sequence)++,
	};
	write_bytes(ring, ring->head, &block, sizeof(block));
	ring->open = ring->head;
	publish_head(ring, ring->head + HEADER);
}

bool vms_ring_prepare(struct vms_ring *ring, size_t size)
{
	if (!make_room(ring, HEADER + size)) {
		ring->lost++;
		atomic_fetch_add_explicit(&ring->shared->lost, 1, memory_order_relaxed);
		return false;
	}
	if (ring->open != NONE && ring->head + size > ring->open + get_max_block(ring))
		close_block(ring);
	if (ring->open == NONE)
		open_block(ring);
	uint64_t room = find_room_end(ring), block = ring->open + get_max_block(ring);
	ring->limit = room < block ? room : block;
	if (ring->head - ring->signalled >= ring->size / 8)
		vms_ring_flush(ring);
	return true;
}

void vms_ring_set_stream(struct vms_ring *ring, uint64_t stream, uint64_t *sequence)
{
	close_block(ring);
	ring->stream = stream;
	ring->sequence = sequence;
}

static size_t round_up_to_unit(size_t size)
{
	return (size + VMS_AGENT_UNIT - 1) / VMS_AGENT_UNIT * VMS_AGENT_UNIT;
}

bool vms_ring_reserve(struct vms_ring *ring, size_t size)
{
	const uint64_t need = HEADER + round_up_to_unit(size);
	return need <= get_max_block(ring) && make_room(ring, need);
}

bool vms_ring_write_block(struct vms_ring *ring, uint32_t kind, uint64_t number,
			  const void *payload, size_t size)
{
	static const unsigned char padding[VMS_AGENT_UNIT];
	const size_t padded = round_up_to_unit(size);
	struct vms_agent_block block = {
		.kind = kind,
		.size = (uint32_t)padded,
		.stream = ring->stream,
		.number = number,
	};
	if (!vms_ring_reserve(ring, size))
		return false;
	close_block(ring);
	write_bytes(ring, ring->head, &block, sizeof(block));
	write_bytes(ring, ring->head + HEADER, payload, size);
	write_bytes(ring, ring->head + HEADER + size, padding, padded - size);
	publish_head(ring, ring->head + HEADER + padded);
	ring->limit = ring->head;
	return true;
}

/* ---- blocks with an answer --------------------------------------------------------- */

/* Waits for the answer to the last block that needs one. False if there was none in time. */
static bool wait_for_answer(struct vms_ring *ring, uint64_t ns)
{
	struct vms_agent_ring *shared = ring->shared;
	uint64_t now = vms_clock_now_ns(), end = now + ns;
	for (; now < end && !atomic_load(&ring->abandoned); now = vms_clock_now_ns()) {
		uint32_t answered = atomic_load(&shared->answered);
		struct timespec timeout = { 0, ANSWER_NS };
		if ((int32_t)(answered - ring->n_asked) >= 0)
			return true;
		syscall(SYS_futex, &shared->answered, FUTEX_WAIT, answered, &timeout, NULL, 0);
	}
	return false;
}

void vms_ring_ask_client(struct vms_ring *ring, uint32_t kind, const void *payload, size_t size,
			 bool patient)
{
	struct vms_agent_ring *shared = ring->shared;
	uint32_t behind = ring->n_asked - atomic_load(&shared->answered);
	bool answers = !ring->unanswered || (int32_t)behind <= 0;
	if (vms_ring_write_block(ring, kind, ++ring->n_asked, payload, size)) {
		vms_ring_flush(ring);
		ring->unanswered =
			!answers || !wait_for_answer(ring, patient ? PATIENCE_NS : ANSWER_NS);
		if (!ring->unanswered)
			return;
	}
	atomic_store(&shared->given_up, ring->n_asked);
}
