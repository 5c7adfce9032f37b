/* SPDX-License-Identifier: MIT */
#include "machine/agent/ring_reader.h"

#include "base/clock.h"
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

#define UNIT		 VMS_AGENT_UNIT
#define HEADER		 sizeof(struct vms_agent_block)
#define MIN_RING	 (64u << 10)
#define MAX_RING	 (64u << 20)
#define STREAMS_LIMIT	 (1u << 20)
#define ORDER_TIMEOUT_NS 1000000000 /* how long to wait for an earlier block of a stream */

G_STATIC_ASSERT(HEADER % UNIT == 0);

struct stream {
	uint64_t id;
	uint64_t next; /* sequence number of the next block */
};

/* The state of reading a ring. */
struct ring {
	struct vms_agent_ring *shared;
	uint8_t *data;
	uint64_t position;     /* all before this was taken */
	uint64_t block;	       /* position of the header of the APPENDED block that is being read */
	struct stream *stream; /* of that block; NULL: at the begin of a block */
	uint64_t sequence;     /* of that block */
	uint32_t asked;	       /* number of the last block that was answered */
	uint64_t waiting_ns;   /* since when the next block waits for an earlier one, or 0 */
	uint64_t woken;	       /* position at which the agent was last woken */
	bool broken;
};

struct vms_ring_reader {
	struct vms_agent_rings *shared;
	struct vms_ring_receiver receiver;
	uint64_t ring_size;
	struct ring *rings;
	unsigned n_rings;
	GTree *streams; /* struct stream, by id; a tree, because the guest chooses the ids */
	bool finishing;
	const struct ring *current; /* the ring of the block that the receiver gets now; or NULL */
	uint64_t dropped;	    /* units that arrived too late for their place */
	_Alignas(8) uint8_t payload[VMS_RING_MAX_PAYLOAD]; /* of that block */
};

/* ---- the memory ------------------------------------------------------- */

static int compare_streams(const void *a, const void *b, void *data)
{
	(void)data;
	const struct stream *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_valid_layout(const struct vms_agent_rings *shared, size_t size)
{
	uint64_t header = sizeof(*shared) + (uint64_t)shared->n_rings * sizeof(shared->ring[0]);
	return shared->n_rings > 0 && shared->n_rings <= VMS_AGENT_MAX_VCPUS &&
	       shared->ring_size >= MIN_RING && shared->ring_size <= MAX_RING &&
	       (shared->ring_size & (shared->ring_size - 1)) == 0 &&
	       shared->rings_offset % UNIT == 0 && shared->rings_offset >= header &&
	       shared->rings_offset <= size &&
	       size - shared->rings_offset >= shared->n_rings * shared->ring_size;
}

struct vms_ring_reader *vms_ring_reader_new(void *memory, size_t size,
					    const struct vms_ring_receiver *receiver,
					    GError **error)
{
	struct vms_agent_rings *shared = memory, layout = { 0 };
	if (size >= sizeof(layout))
		memcpy(&layout, memory,
		       sizeof(layout)); /* a copy, because the agent may change it */
	if (!is_valid_layout(&layout, size)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			    "cannot trace %s: the layout of the agent's memory for the trace (%zu "
			    "bytes) is wrong; restart QEMU with the agent of this vmscope",
			    receiver->what, size);
		return NULL;
	}
	struct vms_ring_reader *reader = g_new0(struct vms_ring_reader, 1);
	reader->shared = shared;
	reader->receiver = *receiver;
	reader->ring_size = layout.ring_size;
	reader->n_rings = layout.n_rings;
	reader->rings = g_new0(struct ring, layout.n_rings);
	for (unsigned i = 0; i < layout.n_rings; i++) {
		reader->rings[i].shared = &shared->ring[i];
		reader->rings[i].data =
			(uint8_t *)memory + layout.rings_offset + i * layout.ring_size;
	}
	reader->streams = g_tree_new_full(compare_streams, NULL, NULL, g_free);
	return reader;
}

void vms_ring_reader_free(struct vms_ring_reader *reader)
{
	if (!reader)
		return;
	g_tree_unref(reader->streams);
	g_free(reader->rings);
	g_free(reader);
}

/* Returns how many bytes of a ring were not taken. */
static uint64_t count_unread(const struct vms_ring_reader *reader, const struct ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_relaxed);
	return MIN(head - ring->position, reader->ring_size);
}

uint64_t vms_ring_reader_lost(const struct vms_ring_reader *reader)
{
	uint64_t lost = reader->dropped;
	for (unsigned i = 0; i < reader->n_rings; i++) {
		const struct ring *ring = &reader->rings[i];
		lost += atomic_load_explicit(&ring->shared->lost, memory_order_relaxed);
		if (ring->broken)
			lost += count_unread(reader, ring) / UNIT;
	}
	return lost;
}

/* True if a block's number is `last`, or an earlier one. */
static bool is_up_to(uint32_t number, uint32_t last)
{
	return (int32_t)(last - number) >= 0;
}

/* True if the agent has stopped waiting for the answer to this block. */
static bool has_given_up(const struct ring *ring, uint32_t number)
{
	return is_up_to(number, atomic_load(&ring->shared->given_up));
}

bool vms_ring_reader_is_stopped(const struct vms_ring_reader *reader)
{
	return atomic_load(&reader->shared->stopped) != 0;
}

static void *get_address(const struct vms_ring_reader *reader, const struct ring *ring,
			 uint64_t position)
{
	return ring->data + (position & (reader->ring_size - 1));
}

/* Copies bytes, which may wrap at the ring's end. */
static void copy_from_ring(const struct vms_ring_reader *reader, const struct ring *ring,
			   uint64_t position, void *to, size_t size)
{
	size_t first = MIN(size, reader->ring_size - (position & (reader->ring_size - 1)));
	memcpy(to, get_address(reader, ring, position), first);
	memcpy((uint8_t *)to + first, ring->data, size - first);
}

static void break_ring(struct vms_ring_reader *reader, struct ring *ring)
{
	ring->broken = true;
	vms_log(VMS_LOG_WARNING,
		"%s of vCPU %u are no longer recorded: the agent in QEMU wrote malformed data",
		reader->receiver.what, (unsigned)(ring - reader->rings));
}

/* Wakes the vCPU's thread if it waits for room. */
static void wake_agent(struct ring *ring)
{
	uint32_t *halves = (uint32_t *)&ring->shared->tail;
	ring->woken = ring->position;
	syscall(SYS_futex, halves + (G_BYTE_ORDER == G_BIG_ENDIAN), FUTEX_WAKE, INT_MAX, NULL, NULL,
		0);
}

/* Lets the agent reuse the room of data that was taken. */
static void free_room(const struct vms_ring_reader *reader, struct ring *ring)
{
	atomic_store_explicit(&ring->shared->tail, ring->position, memory_order_release);
	if (ring->position - ring->woken >= reader->ring_size / 8)
		wake_agent(ring);
}

/* ---- blocks ----------------------------------------------------------- */

/* Returns the stream with an id, and adds it if it is new. NULL if the id is invalid. */
static struct stream *find_stream(struct vms_ring_reader *reader, uint64_t id)
{
	const struct stream key = { .id = id };
	struct stream *stream = g_tree_lookup(reader->streams, &key);
	if (stream || id == 0 || id > INT32_MAX ||
	    (guint)g_tree_nnodes(reader->streams) >= STREAMS_LIMIT)
		return stream;
	stream = g_memdup2(&key, sizeof(key));
	g_tree_insert(reader->streams, stream, stream);
	return stream;
}

/* Reports that blocks that need an answer were lost for lack of room, up to number `last`. */
static void report_missing(struct vms_ring_reader *reader, struct ring *ring, uint32_t last)
{
	if (last == ring->asked)
		return;
	ring->asked = last;
	reader->receiver.missing(reader->receiver.data);
}

static void answer_block(struct ring *ring, uint32_t number)
{
	ring->asked = number;
	atomic_store(&ring->shared->answered, number);
	syscall(SYS_futex, &ring->shared->answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * Reads the whole block at `position`, whose header is `header`. Copies up to `max` bytes of its
 * payload, and pads it to VMS_RING_MIN_PAYLOAD bytes.
 */
static struct vms_ring_block read_block(const struct vms_ring_reader *reader,
					const struct ring *ring, uint64_t position,
					const struct vms_agent_block *header, uint8_t *payload,
					size_t max)
{
	const size_t size = MIN(header->size, max);
	copy_from_ring(reader, ring, position + HEADER, payload, size);
	if (size < VMS_RING_MIN_PAYLOAD)
		memset(payload + size, 0, VMS_RING_MIN_PAYLOAD - size);
	return (struct vms_ring_block) {
		.kind = header->kind, .stream = header->stream, .payload = payload, .size = size
	};
}

/* Takes a whole block. False if it is malformed. */
static bool take_block(struct vms_ring_reader *reader, struct ring *ring,
		       const struct vms_agent_block *header, uint64_t head)
{
	const uint32_t size = header->size, number = (uint32_t)header->number;
	if (size % UNIT || size > head - ring->position - HEADER)
		return false;
	struct vms_ring_block block = read_block(reader, ring, ring->position, header,
						 reader->payload, sizeof(reader->payload));
	block.stream = find_stream(reader, header->stream) ? header->stream : 0;
	if (number) {
		report_missing(reader, ring, number - 1);
		block.gone = has_given_up(ring, number);
	}
	reader->current = ring;
	bool ok = reader->receiver.block(&block, reader->receiver.data);
	reader->current = NULL;
	if (ok && number)
		answer_block(ring, number);
	if (ok)
		ring->position += HEADER + size;
	return ok;
}

/* True if an earlier block of the stream is missing, which may still arrive in another ring. */
static bool must_wait_for_order(struct vms_ring_reader *reader, struct ring *ring,
				const struct stream *stream, uint64_t sequence)
{
	if (sequence <= stream->next || reader->finishing) {
		ring->waiting_ns = 0;
		return false;
	}
	uint64_t now_ns = vms_clock_now_ns();
	if (!ring->waiting_ns)
		ring->waiting_ns = now_ns;
	if (now_ns - ring->waiting_ns < ORDER_TIMEOUT_NS)
		return true;
	vms_log(VMS_LOG_WARNING, "a part of stream %" G_GUINT64_FORMAT " of the trace is missing",
		stream->id);
	ring->waiting_ns = 0;
	return false;
}

static bool deliver_records(struct vms_ring_reader *reader, struct ring *ring, bool drop,
			    uint64_t size, GError **error)
{
	if (drop) {
		reader->dropped += size / UNIT;
		ring->position += size;
		return true;
	}
	while (size > 0) {
		uint64_t begin = ring->position & (reader->ring_size - 1);
		uint64_t part = MIN(size, reader->ring_size - begin);
		if (!reader->receiver.append(ring->stream->id, ring->data + begin, part,
					     reader->receiver.data, error))
			return false;
		ring->position += part;
		size -= part;
	}
	return true;
}

/*
 * Takes records of the block that is being read, up to `head` or to the block's end. The block's
 * header stays valid until then, even if `tail` is past it: the agent does not overwrite the eighth
 * of the ring before `tail`, and no block is larger than that.
 */
static bool take_appended(struct vms_ring_reader *reader, struct ring *ring, uint64_t head,
			  GError **error)
{
	struct vms_agent_block *block = get_address(reader, ring, ring->block);
	const uint32_t size = atomic_load_explicit(&block->size, memory_order_acquire);
	const uint64_t end = size ? ring->block + HEADER + size : UINT64_MAX;
	const bool late = ring->sequence < ring->stream->next;

	if (size % UNIT || size > reader->ring_size || end < ring->position) {
		break_ring(reader, ring);
		return true;
	}
	if (!deliver_records(reader, ring, late, MIN(head, end) - ring->position, error))
		return false;
	if (ring->position == end) {
		if (!late)
			ring->stream->next = ring->sequence + 1;
		ring->stream = NULL;
	}
	return true;
}

/* Begins to read the block at the position. False if it must wait, or is malformed. */
static bool enter_block(struct vms_ring_reader *reader, struct ring *ring, uint64_t head)
{
	struct vms_agent_block block = { 0 };
	bool ok = head - ring->position >= HEADER;
	if (ok)
		copy_from_ring(reader, ring, ring->position, &block, sizeof(block));
	if (ok && block.kind != VMS_AGENT_APPENDED && take_block(reader, ring, &block, head))
		return true;
	struct stream *stream =
		ok && block.kind == VMS_AGENT_APPENDED ? find_stream(reader, block.stream) : NULL;
	if (!stream) {
		break_ring(reader, ring);
		return false;
	}
	if (must_wait_for_order(reader, ring, stream, block.sequence))
		return false;
	ring->stream = stream;
	ring->sequence = block.sequence;
	ring->block = ring->position;
	ring->position += HEADER;
	return true;
}

/*
 * Answers lost blocks. `given_up` was read before the head, so a block up to this number that is
 * not in the ring was lost.
 */
static void answer_missing(struct vms_ring_reader *reader, struct ring *ring, uint32_t given_up)
{
	if (is_up_to(given_up, ring->asked))
		return;
	report_missing(reader, ring, given_up);
	answer_block(ring, given_up);
}

/*
 * Takes all data that was in the ring at the begin of this call. The agent may close an open block
 * later, even if all its records were taken.
 */
static bool read_ring(struct vms_ring_reader *reader, struct ring *ring, GError **error)
{
	/* Read before `head`: the agent writes a block before it gives it up. */
	const uint32_t given_up = atomic_load(&ring->shared->given_up);
	const uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
	if (head - ring->position > reader->ring_size || head % UNIT)
		break_ring(reader, ring);
	while (!ring->broken && (ring->stream || ring->position < head)) {
		if (!ring->stream && !enter_block(reader, ring, head))
			break;
		if (ring->stream && !take_appended(reader, ring, head, error))
			return false;
		free_room(reader, ring);
		if (ring->stream)
			break; /* the block continues beyond the head */
	}
	if (ring->position != ring->woken)
		wake_agent(ring);
	if (!ring->broken && ring->position >= head)
		answer_missing(reader, ring, given_up);
	return true;
}

/* True if a block of the ring waits for one in another ring. */
static bool is_waiting(const struct ring *ring)
{
	return !ring->broken && ring->waiting_ns != 0;
}

/* Reads all rings once. *moved: some data was taken. *waits: a block waits for another ring. */
static bool read_all_rings(struct vms_ring_reader *reader, bool *moved, bool *waits, GError **error)
{
	*moved = *waits = false;
	for (unsigned i = 0; i < reader->n_rings; i++) {
		struct ring *ring = &reader->rings[i];
		const uint64_t position = ring->position;
		const struct stream *stream = ring->stream;
		if (!read_ring(reader, ring, error))
			return false;
		*moved |= ring->position != position || ring->stream != stream;
		*waits |= is_waiting(ring);
	}
	return true;
}

bool vms_ring_reader_run(struct vms_ring_reader *reader, GError **error)
{
	bool moved, waits;
	do {
		if (!read_all_rings(reader, &moved, &waits, error))
			return false;
	} while (moved && waits);
	return true;
}

bool vms_ring_reader_finish(struct vms_ring_reader *reader, GError **error)
{
	if (!vms_ring_reader_run(reader, error))
		return false;
	reader->finishing = true;
	return vms_ring_reader_run(reader, error);
}

/* ---- blocks that the agent gave up -------------------------------------- */

/* Returns the position of the first block that was not begun to be read, or `head`. */
static uint64_t find_next_block(const struct vms_ring_reader *reader, const struct ring *ring,
				uint64_t head)
{
	if (!ring->stream)
		return ring->position;
	const struct vms_agent_block *block = get_address(reader, ring, ring->block);
	const uint32_t size = atomic_load_explicit(&block->size, memory_order_acquire);
	return size ? ring->block + HEADER + size : head;
}

/*
 * Moves `position` past the next block that needs an answer. False if there is none, or the ring is
 * malformed.
 */
static bool find_next_question(const struct vms_ring_reader *reader, const struct ring *ring,
			       uint64_t head, uint64_t *position, uint32_t *number,
			       uint8_t payload[VMS_RING_MIN_PAYLOAD], struct vms_ring_block *ret)
{
	while (head - *position >= HEADER && head - *position <= reader->ring_size) {
		struct vms_agent_block block;
		copy_from_ring(reader, ring, *position, &block, sizeof(block));
		const uint32_t size = block.size;
		if (size > head - *position - HEADER || (block.kind == VMS_AGENT_APPENDED && !size))
			return false;
		*ret = read_block(reader, ring, *position, &block, payload, VMS_RING_MIN_PAYLOAD);
		*position += HEADER + size;
		*number = (uint32_t)block.number;
		if (block.kind != VMS_AGENT_APPENDED && block.number)
			return true;
	}
	return false;
}

static bool has_ring_given_up(const struct vms_ring_reader *reader, const struct ring *ring,
			      bool (*matches)(const struct vms_ring_block *block, const void *data),
			      const void *data)
{
	/* Read before `head`: the agent writes a block before it gives it up. */
	const uint32_t given_up = atomic_load(&ring->shared->given_up);
	const uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
	uint64_t position = find_next_block(reader, ring, head);
	_Alignas(8) uint8_t payload[VMS_RING_MIN_PAYLOAD];
	struct vms_ring_block block;
	uint32_t number;
	for (uint32_t asked = ring->asked; !is_up_to(given_up, asked); asked = number)
		if (!find_next_question(reader, ring, head, &position, &number, payload, &block) ||
		    number != asked + 1 || matches(&block, data))
			return true;
	return false;
}

bool vms_ring_reader_gave_up(const struct vms_ring_reader *reader, enum vms_ring_scope scope,
			     bool (*matches)(const struct vms_ring_block *block, const void *data),
			     const void *data)
{
	if (scope == VMS_RING_OF_BLOCK && reader->current)
		return has_ring_given_up(reader, reader->current, matches, data);
	for (unsigned i = 0; i < reader->n_rings; i++)
		if (has_ring_given_up(reader, &reader->rings[i], matches, data))
			return true;
	return false;
}

/* ---- hits of probes ----------------------------------------------------- */

uint64_t vms_ring_reader_hits(const struct vms_ring_reader *reader)
{
	return atomic_load(&reader->shared->hits);
}

/* Relies on this: the agent sets `taking` before it takes a number. */
uint64_t vms_ring_reader_settled(const struct vms_ring_reader *reader)
{
	uint64_t settled = vms_ring_reader_hits(reader);
	for (unsigned i = 0; i < reader->n_rings; i++) {
		const uint64_t taking = atomic_load(&reader->rings[i].shared->taking);
		if (taking > 0)
			settled = MIN(settled, taking - 1);
	}
	return settled;
}

void vms_ring_reader_count_early(const struct vms_ring_reader *reader, uint64_t *rejected,
				 uint64_t *unknown)
{
	*rejected = *unknown = 0;
	for (unsigned i = 0; i < reader->n_rings; i++) {
		*rejected += atomic_load(&reader->rings[i].shared->rejected);
		*unknown += atomic_load(&reader->rings[i].shared->unknown);
	}
}

void vms_ring_reader_set_sleeps(struct vms_ring_reader *reader, bool sleeps)
{
	atomic_store(&reader->shared->sleeps, sleeps);
}
