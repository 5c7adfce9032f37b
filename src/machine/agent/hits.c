/* SPDX-License-Identifier: MIT */
#include "machine/agent/hits.h"

#include "base/clock.h"
#include "machine/agent/hit_order.h"
#include "machine/agent/ring_reader.h"
#include <string.h>

/* After this time a missing hit is given up, although the agent says that it will follow. */
#define LATE_NS	      G_GUINT64_CONSTANT(1000000000)
#define MAX_HELD_SIZE (64U << 20) /* bytes of values that wait for such a hit */

struct vms_hits {
	struct vms_hits_expected expected; /* no limit: UINT64_MAX */
	void (*hit)(const struct vms_hit *hit, void *data);
	void *data;
	struct vms_ring_reader *reader;
	struct vms_hit_order order;
	uint64_t late_ns;      /* since when an earlier hit is missing; 0: none is */
	bool is_over;	       /* all hits were delivered */
	_Atomic uint64_t lost; /* for other threads */
};

/* ---- hits ------------------------------------------------------------------------- */

/* Returns the machine's number of a vCPU by the agent's index, or -1. */
static int find_vcpu_number(const struct vms_hits *hits, uint32_t index)
{
	for (unsigned i = 0; i < hits->expected.n_vcpus; i++)
		if (hits->expected.cpu_index[i] == index)
			return (int)i;
	return -1;
}

/* True if the bytes are a sequence of values with valid heads. */
static bool are_values(const uint8_t *values, size_t size)
{
	while (size > 0) {
		struct vms_value_head head;
		if (size < sizeof(head))
			return false;
		memcpy(&head, values, sizeof(head));
		if (head.status >= VMS_VALUE_COUNT || head.size > size - sizeof(head) ||
		    (head.status == VMS_VALUE_UNREADABLE && head.size > 0))
			return false;
		values += sizeof(head) + head.size;
		size -= sizeof(head) + head.size;
	}
	return true;
}

static bool receive_block(const struct vms_ring_block *block, void *data)
{
	struct vms_hits *hits = data;
	struct vms_agent_hit hit;
	memcpy(&hit, block->payload, sizeof(hit));
	const uint8_t *values = block->payload + sizeof(hit);
	if (block->kind != VMS_AGENT_HIT || block->size < sizeof(hit) ||
	    hit.size > block->size - sizeof(hit) || hit.size > VMS_HIT_VALUES_MAX ||
	    hit.place >= hits->expected.n_places || find_vcpu_number(hits, hit.vcpu) < 0 ||
	    hit.number == 0 || hit.number > hits->expected.max_hits ||
	    !are_values(values, hit.size))
		return false;
	vms_hit_order_add(&hits->order, &hit, values);
	return true;
}

/* These rings have no blocks that grow. */
static bool ignore_bytes(uint64_t stream, const void *bytes, size_t size, void *data,
			 GError **error)
{
	(void)stream, (void)bytes, (void)size, (void)data, (void)error;
	return true;
}

static void ignore_missing(void *data)
{
	(void)data;
}

static void deliver_hit(const struct vms_agent_hit *from, const uint8_t *values, void *data)
{
	const struct vms_hits *hits = data;
	const struct vms_hit hit = {
		.number = from->number,
		.time_ns = from->time_ns,
		.place = from->place,
		.vcpu = (unsigned)find_vcpu_number(hits, from->vcpu),
		.values = values,
		.size = from->size,
	};
	hits->hit(&hit, hits->data);
}

/*
 * Returns up to which number no hit need be waited for: `settled`, or the first hit that is held
 * back if it has waited for too long.
 */
static uint64_t give_up_late(struct vms_hits *hits, uint64_t settled)
{
	const uint64_t first = vms_hit_order_first(&hits->order);
	if (first <= MAX(hits->order.next, settled)) {
		hits->late_ns = 0;
		return settled;
	}
	const uint64_t now_ns = vms_clock_now_ns();
	if (!hits->late_ns)
		hits->late_ns = now_ns;
	if (now_ns - hits->late_ns < LATE_NS && hits->order.bytes->len < MAX_HELD_SIZE)
		return settled;
	hits->late_ns = 0;
	return first;
}

size_t vms_hits_take(struct vms_hits *hits, bool all)
{
	if (hits->is_over)
		return 0;
	uint64_t settled =
		all ? vms_ring_reader_hits(hits->reader) : vms_ring_reader_settled(hits->reader);
	vms_ring_reader_run(hits->reader, NULL);
	settled = give_up_late(hits, MIN(settled, hits->expected.max_hits));
	size_t n = vms_hit_order_run(&hits->order, settled, deliver_hit, hits);
	while (all && vms_hit_order_first(&hits->order)) /* hits that the agent has not counted */
		n += vms_hit_order_run(&hits->order, vms_hit_order_first(&hits->order), deliver_hit,
				       hits);
	atomic_store(&hits->lost, hits->order.lost);
	hits->is_over = all || settled == hits->expected.max_hits;
	return n;
}

void vms_hits_collect(struct vms_hits *hits)
{
	if (!hits->is_over && hits->order.bytes->len < MAX_HELD_SIZE)
		vms_ring_reader_run(hits->reader, NULL);
}

/* ---- the memory ------------------------------------------------------------------- */

struct vms_hits *vms_hits_new(void *memory, size_t size, const struct vms_hits_expected *expected,
			      void (*hit)(const struct vms_hit *hit, void *data), void *data,
			      GError **error)
{
	struct vms_hits *hits = g_new0(struct vms_hits, 1);
	const struct vms_ring_receiver receiver = { "hits", ignore_bytes, receive_block,
						    ignore_missing, hits };
	vms_hit_order_init(&hits->order);
	hits->expected = *expected;
	hits->expected.max_hits = expected->max_hits ? expected->max_hits : UINT64_MAX;
	hits->hit = hit;
	hits->data = data;
	hits->reader = vms_ring_reader_new(memory, size, &receiver, error);
	if (hits->reader)
		return hits;
	vms_hits_free(hits);
	return NULL;
}

void vms_hits_free(struct vms_hits *hits)
{
	if (!hits)
		return;
	vms_ring_reader_free(hits->reader);
	vms_hit_order_clear(&hits->order);
	g_free(hits);
}

void vms_hits_set_sleeps(struct vms_hits *hits, bool sleeps)
{
	vms_ring_reader_set_sleeps(hits->reader, sleeps);
}

bool vms_hits_is_stopped(const struct vms_hits *hits)
{
	return vms_ring_reader_is_stopped(hits->reader);
}

void vms_hits_counts(const struct vms_hits *hits, struct vms_probes_counts *ret)
{
	ret->hits = MIN(vms_ring_reader_hits(hits->reader), hits->expected.max_hits);
	ret->lost = atomic_load(&hits->lost);
	vms_ring_reader_count_early(hits->reader, &ret->rejected, &ret->unknown);
}
