/* SPDX-License-Identifier: MIT */
/*
 * The host's clock for a trace's records, which is read millions of times a second. It is the
 * processor's time stamp counter if that ticks evenly, scaled to CLOCK_MONOTONIC and corrected by
 * it. Otherwise it is CLOCK_MONOTONIC itself.
 */
#pragma once

#include <stdint.h>

/* A clock of one thread. All 0 at first. */
struct clock {
	uint64_t base_ticks, base_ns; /* one moment: the counter, and what this clock said */
	uint64_t true_ns;	      /* CLOCK_MONOTONIC then */
	uint64_t rate;		      /* ns << 32 per tick */
	uint64_t interval;	      /* ticks until the next comparison; 0: there was none yet */
};

/* Returns ns of CLOCK_MONOTONIC, wrong by some microseconds at most unless the host slept. */
uint64_t clock_read(struct clock *clock);
