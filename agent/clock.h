/* SPDX-License-Identifier: MIT */
/*
 * The host's clock for a trace's records, read millions of times a second: the processor's time
 * stamp counter where it ticks evenly, scaled to CLOCK_MONOTONIC and steered after it; else that
 * clock itself.
 */
#pragma once

#include <stdint.h>

/* Of one thread; all 0 at first. */
struct clock {
	uint64_t base_ticks, base_ns; /* a moment: of the counter, and what the clock said */
	uint64_t true_ns;	      /* CLOCK_MONOTONIC then */
	uint64_t rate;		      /* ns << 32 per tick */
	uint64_t interval;	      /* ticks after which it is compared again; 0: never was */
};

/* ns of CLOCK_MONOTONIC, wrong by some microseconds at most unless the host slept. */
uint64_t clock_read(struct clock *clock);
