/* SPDX-License-Identifier: MIT */
#include "calls/drain.h"

#include "machine/agent/ring_reader.h"
#include <string.h>

G_STATIC_ASSERT(sizeof(struct vms_calls_stream) <= VMS_RING_MIN_PAYLOAD);
G_STATIC_ASSERT(sizeof(struct vms_calls_space) <= VMS_RING_MIN_PAYLOAD);

struct vms_calls_drain {
	struct vms_ring_reader *reader;
	struct vms_calls_receiver receiver;
	uint64_t ending_mm; /* of the PROCESS block that the receiver handles now; or 0 */
};

/* ---- what is in the rings ------------------------------------------------- */

static bool append_records(uint64_t stream, const void *bytes, size_t size, void *data,
			   GError **error)
{
	struct vms_calls_drain *drain = data;
	return drain->receiver.records(stream, bytes, size, drain->receiver.data, error);
}

/* Reports that blocks were lost: any address space may have ended. */
static void report_missing(void *data)
{
	struct vms_calls_drain *drain = data;
	const struct vms_calls_space unknown = { 0 };
	drain->receiver.process(&unknown, true, drain->receiver.data);
}

static struct vms_calls_space read_space(const struct vms_ring_block *block)
{
	struct vms_calls_space space;
	memcpy(&space, block->payload, sizeof(space));
	space.name[sizeof(space.name) - 1] = '\0';
	return space;
}

static void receive_stream(struct vms_calls_drain *drain, const struct vms_ring_block *block)
{
	struct vms_calls_stream stream;
	memcpy(&stream, block->payload, sizeof(stream));
	stream.name[sizeof(stream.name) - 1] = '\0';
	drain->receiver.stream(block->stream, &stream, drain->receiver.data);
}

static void receive_space(struct vms_calls_drain *drain, const struct vms_ring_block *block)
{
	const struct vms_calls_space space = read_space(block);
	drain->receiver.space(block->stream, &space, drain->receiver.data);
}

static void receive_process(struct vms_calls_drain *drain, const struct vms_ring_block *block)
{
	const struct vms_calls_space space = read_space(block);
	drain->ending_mm = space.mm;
	drain->receiver.process(&space, block->gone, drain->receiver.data);
	drain->ending_mm = 0;
}

static bool receive_block(const struct vms_ring_block *block, void *data)
{
	struct vms_calls_drain *drain = data;
	if (!block->stream && block->kind != VMS_CALLS_PROCESS)
		return false;
	switch ((enum vms_calls_block_kind)block->kind) {
	case VMS_CALLS_STREAM: receive_stream(drain, block); return true;
	case VMS_CALLS_SPACE: receive_space(drain, block); return true;
	case VMS_CALLS_PROCESS: receive_process(drain, block); return true;
	case VMS_CALLS_RECORDS:
	default: return false;
	}
}

/* ---- the rings ------------------------------------------------------------ */

struct vms_calls_drain *vms_calls_drain_new(void *memory, size_t size,
					    const struct vms_calls_receiver *receiver,
					    GError **error)
{
	struct vms_calls_drain *drain = g_new0(struct vms_calls_drain, 1);
	const struct vms_ring_receiver rings = { "calls", append_records, receive_block,
						 report_missing, drain };
	drain->receiver = *receiver;
	drain->reader = vms_ring_reader_new(memory, size, &rings, error);
	if (drain->reader)
		return drain;
	g_free(drain);
	return NULL;
}

void vms_calls_drain_free(struct vms_calls_drain *drain)
{
	if (!drain)
		return;
	vms_ring_reader_free(drain->reader);
	g_free(drain);
}

bool vms_calls_drain_run(struct vms_calls_drain *drain, GError **error)
{
	return vms_ring_reader_run(drain->reader, error);
}

bool vms_calls_drain_finish(struct vms_calls_drain *drain, GError **error)
{
	return vms_ring_reader_finish(drain->reader, error);
}

uint64_t vms_calls_drain_lost(const struct vms_calls_drain *drain)
{
	return vms_ring_reader_lost(drain->reader);
}

bool vms_calls_drain_stopped(const struct vms_calls_drain *drain)
{
	return vms_ring_reader_is_stopped(drain->reader);
}

/* True if the block says that the address space `mm` ends. */
static bool ends_space(const struct vms_ring_block *block, const void *mm)
{
	return block->kind == VMS_CALLS_PROCESS && read_space(block).mm == *(const uint64_t *)mm;
}

bool vms_calls_drain_is_late(const struct vms_calls_drain *drain, uint64_t mm)
{
	/* The vCPU of a PROCESS block waits for the answer, so other rings do not matter. */
	enum vms_ring_scope scope =
		drain->ending_mm && mm == drain->ending_mm ? VMS_RING_OF_BLOCK : VMS_RING_ALL;
	return vms_ring_reader_gave_up(drain->reader, scope, ends_space, &mm);
}
