/* SPDX-License-Identifier: MIT */
/*
 * Signals by which a user ends a job, in commands that run a main loop: Ctrl-C, and those that end
 * processes. Commands without a main loop have interrupts.h.
 */
#pragma once

#include <glib.h>
#include <vmscope/budget.h>

#define END_SIGNALS 3

struct end_signals {
	void (*end)(void *data); /* called for each of them, from the main loop */
	void *data;
	/* Hurried by all but the first Ctrl-C, which is how users end a job whose names they want.
	 * NULL: there is none. */
	struct vms_budget *budget;
	unsigned n; /* that have come */
	struct end_signal {
		struct end_signals *signals;
		int number;
		guint source; /* 0: none */
	} each[END_SIGNALS];
};

/*
 * Begins to watch for them; the first three members are set. The third signal ends the process, in
 * case that the job does not end by itself.
 */
void end_signals_watch(struct end_signals *signals);
void end_signals_release(struct end_signals *signals);
