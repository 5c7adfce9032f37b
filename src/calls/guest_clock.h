/* SPDX-License-Identifier: MIT */
/*
 * Converts times of the host to the guest's virtual clock, which stands while the machine is
 * paused. A time of this clock is the host's time minus all pauses before it.
 */
#pragma once

#include <vmscope/machine.h>

/* Returns by how many ns the guest's clock is behind CLOCK_MONOTONIC at `time_ns`. */
typedef uint64_t (*vms_calls_paused)(void *data, uint64_t time_ns);

/*
 * Copies `size` bytes of uftrace's records into `ret`, with times of the guest's clock. The records
 * are sorted by time.
 */
void vms_calls_convert_times(const void *records, size_t size, vms_calls_paused paused, void *data,
			     void *ret);
