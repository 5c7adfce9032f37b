/* SPDX-License-Identifier: MIT */
/*
 * Rings that a hostile QEMU has written: heads and contents are the fuzzer's.
 *
 * Covers: src/calls/drain.c src/machine/agent/ring_reader.c.
 */
#include "calls/drain.h"
#include <string.h>
#include <vmscope/error.h>

#define RINGS	  2
#define RING_SIZE (64u << 10)
#define OFFSET	  4096
#define MEMORY	  (OFFSET + RINGS * RING_SIZE)
#define REFUSED	  0xee /* first byte of records that cannot be written */

static void on_stream(uint64_t id, const struct vms_calls_stream *stream, void *data)
{
	(void)id, (void)data;
	g_assert(strlen(stream->name) < sizeof(stream->name));
}

static void on_space(uint64_t id, const struct vms_calls_space *space, void *data)
{
	(void)id, (void)data;
	g_assert(strlen(space->name) < sizeof(space->name));
}

static void on_process(const struct vms_calls_space *space, bool gone, void *data)
{
	(void)gone;
	on_space(0, space, data);
}

static bool on_records(uint64_t id, const void *records, size_t size, void *data, GError **error)
{
	uint8_t sum = 0;
	if (*(const uint8_t *)records == REFUSED) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "the disk is full");
		return false;
	}
	g_assert(id > 0 && id <= INT32_MAX && size % 16 == 0);
	for (size_t i = 0; i < size; i++)
		sum ^= ((const uint8_t *)records)[i];
	*(volatile uint8_t *)data = sum;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Per ring two numbers, where its head stands first and then, and after them what is in the rings.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t heads[2][RINGS];
	uint8_t sum;
	const struct vms_calls_receiver receiver = { on_stream, on_space, on_process, on_records,
						     &sum };
	if (size < sizeof(heads))
		return 0;
	memcpy(heads, data, sizeof(heads));
	struct vms_agent_rings *shared = g_aligned_alloc0(1, MEMORY, 4096);
	*shared = (struct vms_agent_rings) { OFFSET, RING_SIZE, RINGS, 0 };
	/* A head that no ring has: the other numbers are the layout, and wrong. */
	if (heads[0][0] == UINT64_MAX)
		*shared = (struct vms_agent_rings) { heads[0][1], heads[1][0],
						     (uint32_t)heads[1][1], 0 };
	memcpy((char *)shared + OFFSET, data + sizeof(heads),
	       MIN(size - sizeof(heads), RINGS * RING_SIZE));
	g_autoptr(vms_calls_drain) drain = vms_calls_drain_new(shared, MEMORY, &receiver, NULL);
	for (unsigned i = 0; drain && i < 2; i++) {
		for (unsigned ring = 0; ring < RINGS; ring++) {
			atomic_store(&shared->ring[ring].given_up, 2 * i + 2);
			atomic_store(&shared->ring[ring].head, heads[i][ring]);
		}
		vms_calls_drain_is_late(drain, 1);
		vms_calls_drain_run(drain, NULL);
	}
	if (drain) {
		vms_calls_drain_is_late(drain, 1);
		g_assert_false(vms_calls_drain_stopped(drain));
		vms_calls_drain_finish(drain, NULL);
		vms_calls_drain_lost(drain);
	}
	g_aligned_free(shared);
	return 0;
}
