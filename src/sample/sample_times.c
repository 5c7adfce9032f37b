/* SPDX-License-Identifier: MIT */
#include "sample/sample_times.h"

#define FIRST_CAPACITY 1024

void vms_sample_times_init(struct vms_sample_times *times, size_t limit)
{
	*times = (struct vms_sample_times) { .limit = limit };
}

void vms_sample_times_clear(struct vms_sample_times *times)
{
	g_clear_pointer(&times->times, g_free);
	times->n = times->capacity = 0;
}

/* Grows by half. Doubling would leave too much memory of a long run unused. */
static bool make_room(struct vms_sample_times *times)
{
	if (times->n < times->capacity)
		return true;
	if (times->n >= times->limit)
		return false;
	const size_t wanted = MAX(FIRST_CAPACITY, times->capacity + times->capacity / 2);
	const size_t capacity = MIN(wanted, times->limit);
	void *grown = g_try_realloc_n(times->times, capacity, sizeof(*times->times));
	if (!grown)
		return false;
	times->times = grown;
	times->capacity = capacity;
	return true;
}

void vms_sample_times_add(struct vms_sample_times *times, const struct vms_sample_record *record,
			  uint32_t node)
{
	if (!make_room(times))
		return;
	times->times[times->n++] = (struct vms_sample_time) {
		.time_ns = record->time_ns,
		.node = node,
		.space = record->space,
		.pid = record->pid,
		.tid = record->tid,
	};
}
