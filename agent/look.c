/* SPDX-License-Identifier: MIT */
#include "agent/look.h"

#include "agent/qemu/kick.h"
#include "base/clock.h"

#define PAUSE_US    500		  /* between two checks for the answer */
#define MAX_WAIT_NS 3000000000ULL /* how long a vCPU waits for the answer */

/* The numbers overflow, so their difference counts. */
static bool is_answered(const struct look *look, const _Atomic uint32_t *looked)
{
	return (int32_t)(atomic_load(looked) - look->number) >= 0;
}

bool look_ask(struct look *look, _Atomic uint32_t *looks, const _Atomic uint32_t *looked)
{
	const uint64_t now_ns = vms_clock_now_ns();
	const bool was_given_up =
		look->end_ns && !is_answered(look, looked) && now_ns > look->end_ns;
	look->number = atomic_fetch_add(looks, 1) + 1;
	if (!was_given_up)
		look->end_ns = now_ns + MAX_WAIT_NS;
	return !was_given_up;
}

bool look_is_awaited(const struct look *look, const _Atomic uint32_t *looked)
{
	return look->end_ns > vms_clock_now_ns() && !is_answered(look, looked);
}

void look_pause(void)
{
	kick_begin_wait();
	g_usleep(PAUSE_US);
	kick_end_wait();
}
