/* SPDX-License-Identifier: MIT */
#include "calls/guest_clock.h"

#include <string.h>

struct record {
	uint64_t time_ns, word;
};

/*
 * Subtracts from each record's time the pauses before it. The sum of pauses never shrinks: if it is
 * the same for the first record and the last one, it is the same for all between. This is nearly
 * always so. If not, each half is treated by itself.
 */
static void subtract_pauses(struct record *records, size_t n, vms_calls_paused paused, void *data)
{
	uint64_t first = paused(data, records[0].time_ns);
	if (n > 1 && paused(data, records[n - 1].time_ns) != first) {
		subtract_pauses(records, n / 2, paused, data);
		subtract_pauses(records + n / 2, n - n / 2, paused, data);
		return;
	}
	for (size_t i = 0; i < n; i++)
		records[i].time_ns -= MIN(first, records[i].time_ns);
}

void vms_calls_convert_times(const void *records, size_t size, vms_calls_paused paused, void *data,
			     void *ret)
{
	memcpy(ret, records, size);
	if (size >= sizeof(struct record))
		subtract_pauses(ret, size / sizeof(struct record), paused, data);
}
