/* SPDX-License-Identifier: MIT */
#include "calls/drain.h"

#include "base/clock.h"
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

#define UNIT		 16u /* every block, and all in it, is a multiple of this */
#define HEADER		 sizeof(struct vms_calls_block)
#define MIN_RING	 (64u << 10)
#define MAX_RING	 (64u << 20)
#define STREAMS_LIMIT	 (1u << 20)
#define ORDER_TIMEOUT_NS 1000000000 /* an earlier block of a stream that does not come */

G_STATIC_ASSERT(HEADER % UNIT == 0);

struct stream {
	uint64_t id;
	uint64_t next; /* sequence number of the block that is to come */
};

/* Where reading stands in a ring. */
struct ring {
	struct vms_calls_ring *shared;
	uint8_t *data;
	uint64_t position;     /* up to here it was taken */
	uint64_t block;	       /* where the header of the RECORDS block begins that is being read */
	struct stream *stream; /* of that block; NULL: at the begin of a block */
	uint64_t sequence;     /* of that block */
	uint32_t asked;	       /* number of the last block that was answered */
	uint64_t waiting_ns;   /* since when the next block waits for an earlier one, or 0 */
	bool broken;
};

struct vms_calls_drain {
	const struct vms_calls_shared *shared;
	struct vms_calls_receiver receiver;
	uint64_t ring_size;
	struct ring *rings;
	unsigned n_rings;
	GTree *streams; /* struct stream, by id: numbers that a guest chooses */
	bool finishing;
	const struct ring *ending; /* whose PROCESS block is under way, or NULL; of this `mm` */
	uint64_t ending_mm;
	uint64_t dropped; /* records that came too late for their place */
};

/* ---- the memory ------------------------------------------------------- */

static int compare_streams(const void *a, const void *b, void *data)
{
	(void)data;
	const struct stream *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_layout(const struct vms_calls_shared *shared, size_t size)
{
	uint64_t header = sizeof(*shared) + (uint64_t)shared->n_rings * sizeof(shared->ring[0]);
	return shared->n_rings > 0 && shared->n_rings <= VMS_AGENT_MAX_VCPUS &&
	       shared->ring_size >= MIN_RING && shared->ring_size <= MAX_RING &&
	       (shared->ring_size & (shared->ring_size - 1)) == 0 &&
	       shared->rings_offset % UNIT == 0 && shared->rings_offset >= header &&
	       shared->rings_offset <= size &&
	       size - shared->rings_offset >= shared->n_rings * shared->ring_size;
}

struct vms_calls_drain *vms_calls_drain_new(void *memory, size_t size,
					    const struct vms_calls_receiver *receiver,
					    GError **error)
{
	struct vms_calls_shared *shared = memory, layout = { 0 };
	if (size >= sizeof(layout))
		memcpy(&layout, memory, sizeof(layout)); /* it may change */
	if (!is_layout(&layout, size)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			    "cannot trace calls: the agent's memory for the trace (%zu bytes) is "
			    "not laid out as its protocol says; was QEMU started with the agent of "
			    "this version?",
			    size);
		return NULL;
	}
	struct vms_calls_drain *drain = g_new0(struct vms_calls_drain, 1);
	drain->shared = shared;
	drain->receiver = *receiver;
	drain->ring_size = layout.ring_size;
	drain->n_rings = layout.n_rings;
	drain->rings = g_new0(struct ring, layout.n_rings);
	for (unsigned i = 0; i < layout.n_rings; i++) {
		drain->rings[i].shared = &shared->ring[i];
		drain->rings[i].data =
			(uint8_t *)memory + layout.rings_offset + i * layout.ring_size;
	}
	drain->streams = g_tree_new_full(compare_streams, NULL, NULL, g_free);
	return drain;
}

void vms_calls_drain_free(struct vms_calls_drain *drain)
{
	if (!drain)
		return;
	g_tree_unref(drain->streams);
	g_free(drain->rings);
	g_free(drain);
}

/* Bytes that a ring holds. */
static uint64_t untaken(const struct vms_calls_drain *drain, const struct ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_relaxed);
	return MIN(head - ring->position, drain->ring_size);
}

uint64_t vms_calls_drain_lost(const struct vms_calls_drain *drain)
{
	uint64_t lost = drain->dropped;
	for (unsigned i = 0; i < drain->n_rings; i++) {
		const struct ring *ring = &drain->rings[i];
		lost += atomic_load_explicit(&ring->shared->lost, memory_order_relaxed);
		if (ring->broken)
			lost += untaken(drain, ring) / UNIT;
	}
	return lost;
}

/* Is a block's number that of `last`, or of one before? */
static bool is_up_to(uint32_t number, uint32_t last)
{
	return (int32_t)(last - number) >= 0;
}

/* Has the agent not waited for the answer to this block? */
static bool has_given_up(const struct ring *ring, uint32_t number)
{
	return is_up_to(number, atomic_load(&ring->shared->given_up));
}

bool vms_calls_drain_stopped(const struct vms_calls_drain *drain)
{
	return atomic_load(&drain->shared->stopped) != 0;
}

static void *at(const struct vms_calls_drain *drain, const struct ring *ring, uint64_t position)
{
	return ring->data + (position & (drain->ring_size - 1));
}

/* Copies what may reach over the ring's end. */
static void copy_out(const struct vms_calls_drain *drain, const struct ring *ring,
		     uint64_t position, void *to, size_t size)
{
	size_t first = MIN(size, drain->ring_size - (position & (drain->ring_size - 1)));
	memcpy(to, at(drain, ring, position), first);
	memcpy((uint8_t *)to + first, ring->data, size - first);
}

static void break_ring(struct vms_calls_drain *drain, struct ring *ring)
{
	ring->broken = true;
	vms_log(VMS_LOG_WARNING,
		"calls of vCPU %u are not recorded any more: what the agent in QEMU wrote makes no "
		"sense",
		(unsigned)(ring - drain->rings));
}

/* Lets the agent use the room of what was taken, which it may be waiting for. */
static void release(struct ring *ring)
{
	uint32_t *halves = (uint32_t *)&ring->shared->tail;
	atomic_store_explicit(&ring->shared->tail, ring->position, memory_order_release);
	syscall(SYS_futex, halves + (G_BYTE_ORDER == G_BIG_ENDIAN), FUTEX_WAKE, INT_MAX, NULL, NULL,
		0);
}

/* ---- blocks ----------------------------------------------------------- */

/* The stream with an id; one that was not announced gets no name. NULL: it cannot be. */
static struct stream *find_stream(struct vms_calls_drain *drain, uint64_t id)
{
	const struct stream key = { .id = id };
	struct stream *stream = g_tree_lookup(drain->streams, &key);
	if (stream || id == 0 || id > INT32_MAX ||
	    (guint)g_tree_nnodes(drain->streams) >= STREAMS_LIMIT)
		return stream;
	stream = g_memdup2(&key, sizeof(key));
	g_tree_insert(drain->streams, stream, stream);
	return stream;
}

static void receive_stream(struct vms_calls_drain *drain, struct stream *stream,
			   const void *payload)
{
	struct vms_calls_stream told;
	memcpy(&told, payload, sizeof(told));
	told.name[sizeof(told.name) - 1] = '\0';
	drain->receiver.stream(stream->id, &told, drain->receiver.data);
}

static struct vms_calls_space space_of(const void *payload)
{
	struct vms_calls_space told;
	memcpy(&told, payload, sizeof(told));
	told.name[sizeof(told.name) - 1] = '\0';
	return told;
}

/* Blocks that ask have found no room, up to the one of this number: what they tell of has gone. */
static void note_missing(struct vms_calls_drain *drain, struct ring *ring, uint32_t last)
{
	const struct vms_calls_space unknown = { 0 };
	if (last == ring->asked)
		return;
	ring->asked = last;
	drain->receiver.process(&unknown, true, drain->receiver.data);
}

static void answer(struct ring *ring, uint32_t number)
{
	ring->asked = number;
	atomic_store(&ring->shared->answered, number);
	syscall(SYS_futex, &ring->shared->answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void receive_space(struct vms_calls_drain *drain, struct ring *ring, struct stream *stream,
			  uint32_t number, const void *payload)
{
	const struct vms_calls_space told = space_of(payload);
	if (number)
		note_missing(drain, ring, number - 1);
	drain->receiver.space(stream->id, &told, drain->receiver.data);
	if (number)
		answer(ring, number);
}

static void receive_process(struct vms_calls_drain *drain, struct ring *ring, uint32_t number,
			    const void *payload)
{
	const struct vms_calls_space told = space_of(payload);
	note_missing(drain, ring, number - 1);
	drain->ending = ring;
	drain->ending_mm = told.mm;
	drain->receiver.process(&told, has_given_up(ring, number), drain->receiver.data);
	drain->ending = NULL;
	answer(ring, number);
}

/* A block that came all at once; false: it makes no sense. */
static bool take_block(struct vms_calls_drain *drain, struct ring *ring, struct stream *stream,
		       const struct vms_calls_block *block, uint64_t head)
{
	_Alignas(8) uint8_t payload[MAX(sizeof(struct vms_calls_stream),
					sizeof(struct vms_calls_space))] = { 0 };
	const uint32_t size = block->size, number = (uint32_t)block->number;
	if (size % UNIT || size > head - ring->position - HEADER)
		return false;
	copy_out(drain, ring, ring->position + HEADER, payload, MIN(size, sizeof(payload)));
	switch ((enum vms_calls_block_kind)block->kind) {
	case VMS_CALLS_STREAM: receive_stream(drain, stream, payload); break;
	case VMS_CALLS_SPACE: receive_space(drain, ring, stream, number, payload); break;
	case VMS_CALLS_PROCESS: receive_process(drain, ring, number, payload); break;
	case VMS_CALLS_RECORDS:
	default: return false;
	}
	ring->position += HEADER + size;
	return true;
}

/* Has an earlier block of the stream still to come from another ring? */
static bool must_wait(struct vms_calls_drain *drain, struct ring *ring, const struct stream *stream,
		      uint64_t sequence)
{
	if (sequence <= stream->next || drain->finishing) {
		ring->waiting_ns = 0;
		return false;
	}
	uint64_t now_ns = vms_clock_now_ns();
	if (!ring->waiting_ns)
		ring->waiting_ns = now_ns;
	if (now_ns - ring->waiting_ns < ORDER_TIMEOUT_NS)
		return true;
	vms_log(VMS_LOG_WARNING, "stream %" G_GUINT64_FORMAT " of the trace lacks a part",
		stream->id);
	ring->waiting_ns = 0;
	return false;
}

static bool hand_on(struct vms_calls_drain *drain, struct ring *ring, bool drop, uint64_t size,
		    GError **error)
{
	if (drop) {
		drain->dropped += size / UNIT;
		ring->position += size;
		return true;
	}
	while (size > 0) {
		uint64_t begin = ring->position & (drain->ring_size - 1);
		uint64_t piece = MIN(size, drain->ring_size - begin);
		if (!drain->receiver.records(ring->stream->id, ring->data + begin, piece,
					     drain->receiver.data, error))
			return false;
		ring->position += piece;
		size -= piece;
	}
	return true;
}

/*
 * Takes records of the block that is being read, up to `head` or to the block's end. The header
 * stays as it is until the next block begins, also where `tail` is past it: the agent keeps an
 * eighth of the ring, which no block is larger than, from being written over.
 */
static bool take_records(struct vms_calls_drain *drain, struct ring *ring, uint64_t head,
			 GError **error)
{
	struct vms_calls_block *block = at(drain, ring, ring->block);
	const uint32_t size = atomic_load_explicit(&block->size, memory_order_acquire);
	const uint64_t end = size ? ring->block + HEADER + size : UINT64_MAX;
	const bool late = ring->sequence < ring->stream->next;

	if (size % UNIT || size > drain->ring_size || end < ring->position) {
		break_ring(drain, ring);
		return true;
	}
	if (!hand_on(drain, ring, late, MIN(head, end) - ring->position, error))
		return false;
	if (ring->position == end) {
		if (!late)
			ring->stream->next = ring->sequence + 1;
		ring->stream = NULL;
	}
	return true;
}

/*
 * Begins with the block at the position; false when it cannot: it has to wait, or makes no sense.
 */
static bool enter_block(struct vms_calls_drain *drain, struct ring *ring, uint64_t head)
{
	struct vms_calls_block block;
	struct stream *stream = NULL;
	bool ok = head - ring->position >= HEADER;
	if (ok) {
		copy_out(drain, ring, ring->position, &block, sizeof(block));
		stream = find_stream(drain, block.stream);
		ok = stream || block.kind == VMS_CALLS_PROCESS;
	}
	if (!ok ||
	    (block.kind != VMS_CALLS_RECORDS && !take_block(drain, ring, stream, &block, head))) {
		break_ring(drain, ring);
		return false;
	}
	if (block.kind != VMS_CALLS_RECORDS)
		return true;
	if (must_wait(drain, ring, stream, block.sequence))
		return false;
	ring->stream = stream;
	ring->sequence = block.sequence;
	ring->block = ring->position;
	ring->position += HEADER;
	return true;
}

/* What the agent had given up on when the ring was this far, and is not in it. */
static void end_missing(struct vms_calls_drain *drain, struct ring *ring, uint32_t given_up)
{
	if (is_up_to(given_up, ring->asked))
		return;
	note_missing(drain, ring, given_up);
	answer(ring, given_up);
}

/*
 * Takes what was in the ring when it began. A block that was taken whole may be closed later than
 * that.
 */
static bool drain_ring(struct vms_calls_drain *drain, struct ring *ring, GError **error)
{
	/* A block is in the ring before it is given up. */
	const uint32_t given_up = atomic_load(&ring->shared->given_up);
	const uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
	if (head - ring->position > drain->ring_size || head % UNIT)
		break_ring(drain, ring);
	while (!ring->broken && (ring->stream || ring->position < head)) {
		if (!ring->stream && !enter_block(drain, ring, head))
			break;
		if (ring->stream && !take_records(drain, ring, head, error))
			return false;
		release(ring);
		if (ring->stream)
			break; /* the block goes on beyond the head */
	}
	if (!ring->broken && ring->position >= head)
		end_missing(drain, ring, given_up);
	return true;
}

/* Is a block of the ring waiting for one in another? */
static bool is_waiting(const struct ring *ring)
{
	return !ring->broken && ring->waiting_ns != 0;
}

/* A round over all rings; *moved: something was taken. */
static bool drain_all(struct vms_calls_drain *drain, bool *moved, bool *waits, GError **error)
{
	*moved = *waits = false;
	for (unsigned i = 0; i < drain->n_rings; i++) {
		struct ring *ring = &drain->rings[i];
		const uint64_t position = ring->position;
		const struct stream *stream = ring->stream;
		if (!drain_ring(drain, ring, error))
			return false;
		*moved |= ring->position != position || ring->stream != stream;
		*waits |= is_waiting(ring);
	}
	return true;
}

bool vms_calls_drain_run(struct vms_calls_drain *drain, GError **error)
{
	bool moved, waits;
	do {
		if (!drain_all(drain, &moved, &waits, error))
			return false;
	} while (moved && waits);
	return true;
}

bool vms_calls_drain_finish(struct vms_calls_drain *drain, GError **error)
{
	if (!vms_calls_drain_run(drain, error))
		return false;
	drain->finishing = true;
	return vms_calls_drain_run(drain, error);
}

/* ---- what has gone ------------------------------------------------------ */

/* Where the first block begins that was not begun with; `head` where there is none. */
static uint64_t next_block(const struct vms_calls_drain *drain, const struct ring *ring,
			   uint64_t head)
{
	if (!ring->stream)
		return ring->position;
	const struct vms_calls_block *block = at(drain, ring, ring->block);
	const uint32_t size = atomic_load_explicit(&block->size, memory_order_acquire);
	return size ? ring->block + HEADER + size : head;
}

/*
 * Goes on to behind the next block that asks. False where there is none, or where the ring makes no
 * sense. *mm: the address space that ends with it, or 0.
 */
static bool next_question(const struct vms_calls_drain *drain, const struct ring *ring,
			  uint64_t head, uint64_t *position, uint32_t *number, uint64_t *mm)
{
	while (head - *position >= HEADER && head - *position <= drain->ring_size) {
		struct vms_calls_block block;
		struct vms_calls_space told = { 0 };
		copy_out(drain, ring, *position, &block, sizeof(block));
		const uint32_t size = block.size;
		if (size > head - *position - HEADER || (block.kind == VMS_CALLS_RECORDS && !size))
			return false;
		*position += HEADER + size;
		if (block.kind == VMS_CALLS_RECORDS || !block.number)
			continue;
		copy_out(drain, ring, *position - size, &told, MIN(size, sizeof(told)));
		*number = (uint32_t)block.number;
		*mm = block.kind == VMS_CALLS_PROCESS ? told.mm : 0;
		return true;
	}
	return false;
}

/*
 * Does a block that the agent has given up on, and that was not taken yet, tell of the end of this
 * address space? One that has found no room may.
 */
static bool may_end(const struct vms_calls_drain *drain, const struct ring *ring, uint64_t mm)
{
	/* A block is in the ring before it is given up. */
	const uint32_t given_up = atomic_load(&ring->shared->given_up);
	const uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
	uint64_t position = next_block(drain, ring, head), ended;
	uint32_t number;
	for (uint32_t asked = ring->asked; !is_up_to(given_up, asked); asked = number)
		if (!next_question(drain, ring, head, &position, &number, &ended) ||
		    number != asked + 1 || ended == mm)
			return true;
	return false;
}

bool vms_calls_drain_is_late(const struct vms_calls_drain *drain, uint64_t mm)
{
	/* Its vCPU waits for the answer: it is there, whatever others have missed. */
	if (drain->ending && mm == drain->ending_mm)
		return may_end(drain, drain->ending, mm);
	for (unsigned i = 0; i < drain->n_rings; i++)
		if (may_end(drain, &drain->rings[i], mm))
			return true;
	return false;
}
