/* SPDX-License-Identifier: MIT */
#include "live_run.h"
#include "base/clock.h"
#include "interrupts.h"

#define ROUND_US 50000 /* how long to wait for a record before the limits are checked */

bool live_run_until_end(const struct live_run *run, GError **error)
{
	const uint64_t end_ns =
		run->duration_ns ? vms_clock_now_ns() + run->duration_ns : UINT64_MAX;
	bool done = true, ended = false;
	while (done && !ended && !interrupts_came()) {
		ended = run->has_ended(run->data) || vms_clock_now_ns() >= end_ns;
		done = live_records_show(run->live, ROUND_US, run->give, run->data, error) &&
		       (ended || !run->after_round || run->after_round(run->data, error));
	}
	return done;
}

bool live_run_show_rest(const struct live_run *run, GError **error)
{
	bool done = true;
	while (!live_records_is_empty(run->live) && !interrupts_came())
		done = live_records_show(run->live, 0, run->give, run->data, done ? error : NULL) &&
		       done;
	return done;
}
