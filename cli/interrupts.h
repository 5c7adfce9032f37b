/* SPDX-License-Identifier: MIT */
/*
 * Signals by which a user ends a run, whose results are kept: Ctrl-C, and those that end processes.
 * If the run does not look at them, as a script that does not end, the third one ends the process.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <vmscope/budget.h>

#define INTERRUPTS 3

struct interrupts {
	struct sigaction before[INTERRUPTS];
};

/*
 * From now on these signals are only noted. All but the first Ctrl-C, which is how users end a run
 * whose names they want, hurry the budget. It must live until they are released, or is NULL. One
 * run at a time can catch them.
 */
void interrupts_catch(struct interrupts *interrupts, struct vms_budget *budget);
/* From now on each of them hurries the budget, a first Ctrl-C, too. Call it after interrupts_catch.
 */
void interrupts_hurry(struct vms_budget *budget);
/* True if one has come, since they are caught or forgotten. */
bool interrupts_came(void);
void interrupts_forget(void);
void interrupts_release(const struct interrupts *interrupts);
