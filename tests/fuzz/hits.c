/* SPDX-License-Identifier: MIT */
/*
 * Rings of probes that a hostile QEMU has written: numbers and contents are the fuzzer's.
 *
 * Covers: src/machine/agent/hits.c src/machine/agent/hit_order.c src/machine/agent/ring_reader.c.
 */
#include "machine/agent/hits.h"

#include "machine/agent/protocol.h"
#include <string.h>

#define RINGS	  2
#define RING_SIZE (64u << 10)
#define OFFSET	  4096
#define MEMORY	  (OFFSET + RINGS * RING_SIZE)
#define PLACES	  3
#define MAX_HITS  1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct taken {
	uint64_t last;
	uint8_t sum;
};

static void on_hit(const struct vms_hit *hit, void *data)
{
	struct taken *taken = data;
	g_assert_cmpuint(hit->number, >, taken->last);
	g_assert_cmpuint(hit->number, <=, MAX_HITS);
	g_assert_cmpuint(hit->place, <, PLACES);
	g_assert_cmpuint(hit->vcpu, <, RINGS);
	g_assert_cmpuint(hit->size, <=, VMS_PROGRAM_OUTPUT_MAX);
	for (size_t i = 0; i < hit->size; i++)
		taken->sum ^= hit->values[i];
	taken->last = hit->number;
}

/* Per ring, twice: where its head stands, and what it takes; how many hits there are. Then bytes.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned cpu_index[RINGS] = { 5, 0 };
	const struct vms_hits_expected expected = { PLACES, MAX_HITS, cpu_index, RINGS };
	struct {
		uint64_t heads[2][RINGS], taking[2][RINGS], hits[2];
	} numbers;
	struct taken taken = { 0, 0 };
	struct vms_probes_counts counts;
	if (size < sizeof(numbers))
		return 0;
	memcpy(&numbers, data, sizeof(numbers));
	struct vms_agent_rings *shared = g_aligned_alloc0(1, MEMORY, 4096);
	*shared = (struct vms_agent_rings) { OFFSET, RING_SIZE, RINGS, 0 };
	memcpy((char *)shared + OFFSET, data + sizeof(numbers),
	       MIN(size - sizeof(numbers), RINGS * RING_SIZE));
	g_autoptr(vms_hits) hits = vms_hits_new(shared, MEMORY, &expected, on_hit, &taken, NULL);
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&shared->hits, numbers.hits[i]);
		for (unsigned ring = 0; ring < RINGS; ring++) {
			atomic_store(&shared->ring[ring].taking, numbers.taking[i][ring]);
			atomic_store(&shared->ring[ring].head, numbers.heads[i][ring]);
		}
		vms_hits_take(hits, i == 1);
		vms_hits_counts(hits, &counts);
	}
	g_assert_cmpuint(vms_hits_take(hits, true), ==, 0);
	g_aligned_free(shared);
	return 0;
}
