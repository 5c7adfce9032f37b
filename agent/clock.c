/* SPDX-License-Identifier: MIT */
#include "agent/clock.h"

#include "base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdbool.h>

#define INTERVAL_NS  100000000ULL
#define FIRST_NS     2000000ULL /* minimum time between two comparisons */
#define MAX_STEER_NS 1000000

typedef unsigned __int128 wide;

/* CPUID 80000007h, EDX bit 8: the rate is constant in all states of the processor. */
static bool is_invariant(void)
{
	static int known; /* 1 yes, -1 no */
	unsigned a, b, c, d;
	if (!known)
		known = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1 << 8) ? 1 : -1;
	return known > 0;
}

/* Reads the counter and CLOCK_MONOTONIC at the same moment: in the fastest of three tries. */
static uint64_t read_both(uint64_t *ns)
{
	uint64_t best = UINT64_MAX, ticks = 0;
	*ns = 0;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t before = __rdtsc(), now = vms_clock_now_ns(), after = __rdtsc();
		if (after - before < best) {
			best = after - before;
			ticks = before + best / 2;
			*ns = now;
		}
	}
	return ticks;
}

/* Returns the time of this clock at `ticks`. */
static uint64_t convert_ticks(const struct clock *clock, uint64_t ticks)
{
	return clock->base_ns + (uint64_t)((wide)(ticks - clock->base_ticks) * clock->rate >> 32);
}

/* Corrects the rate. A small error is corrected by the rate, so that the time does not jump. */
static void correct_rate(struct clock *clock, uint64_t ticks, uint64_t ns)
{
	uint64_t elapsed = ticks - clock->base_ticks, says = convert_ticks(clock, ticks);
	int64_t error = (int64_t)(ns - says);
	uint64_t rate = (uint64_t)(((wide)(ns - clock->true_ns) << 32) / elapsed);
	clock->interval = (uint64_t)(((wide)INTERVAL_NS << 32) / (rate ? rate : 1));
	clock->base_ns = ns;
	clock->rate = rate;
	if (error > -MAX_STEER_NS && error < MAX_STEER_NS) {
		clock->base_ns = says;
		clock->rate += (uint64_t)(error * (INT64_C(1) << 32) / (int64_t)clock->interval);
	}
}

uint64_t clock_compare(struct clock *clock)
{
	if (!is_invariant())
		return vms_clock_now_ns();
	uint64_t ns, ticks = read_both(&ns);
	bool usable = clock->interval && ticks > clock->base_ticks && ns >= clock->true_ns;
	if (usable && ns - clock->true_ns < FIRST_NS)
		return ns;
	if (usable) {
		correct_rate(clock, ticks, ns);
	} else {
		clock->base_ns = ns;
		clock->interval = 1;
	}
	clock->base_ticks = ticks;
	clock->true_ns = ns;
	return clock->base_ns;
}

#else

uint64_t clock_compare(struct clock *clock)
{
	return clock->base_ns = vms_clock_now_ns();
}

#endif
