/* SPDX-License-Identifier: MIT */
/*
 * The guest's virtual clock, which stands while the machine is paused: times of the host's clock
 * less the pauses before them.
 */
#pragma once

#include <vmscope/machine.h>

/* ns that the guest's clock is behind CLOCK_MONOTONIC at a time. */
typedef uint64_t (*vms_calls_paused)(void *data, uint64_t time_ns);

/*
 * Copies uftrace's records, sorted by time, with times of the guest's clock into `ret`, as large.
 */
void vms_calls_guest_times(const void *records, size_t size, vms_calls_paused paused, void *data,
			   void *ret);
