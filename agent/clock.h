/* SPDX-License-Identifier: MIT */
/*
 * The host's clock for the records of a trace, which is read millions of times a second. If the
 * processor's time stamp counter has a constant rate, the clock is that counter, scaled to
 * CLOCK_MONOTONIC and corrected by it. Otherwise it is CLOCK_MONOTONIC itself.
 */
#pragma once

#include <stdint.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* A clock of one thread. All 0 at first. */
struct clock {
	uint64_t base_ticks, base_ns; /* the counter and this clock's time at one moment */
	uint64_t true_ns;	      /* CLOCK_MONOTONIC at that moment */
	uint64_t rate;		      /* ns << 32 per tick */
	/* Ticks until the next comparison. 0: no comparison yet, or the counter is not used. */
	uint64_t interval;
};

/* Compares the clock with CLOCK_MONOTONIC and corrects it. Returns the time. */
uint64_t clock_compare(struct clock *clock);

/* Returns CLOCK_MONOTONIC in ns. The error is some microseconds at most unless the host slept. */
static inline uint64_t clock_read(struct clock *clock)
{
#if defined(__x86_64__)
	uint64_t elapsed = __rdtsc() - clock->base_ticks;
	if (__builtin_expect(elapsed < clock->interval, 1))
		return clock->base_ns + (elapsed * clock->rate >> 32);
#endif
	return clock_compare(clock);
}
