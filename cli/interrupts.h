/* SPDX-License-Identifier: MIT */
/* Signals by which a user ends a run, whose results are kept: Ctrl-C, and those that end processes.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

struct interrupts {
	guint sources[3];
	gboolean came;
};

/* From now on these signals are only noted. `interrupts` must not move until they are released. */
void interrupts_catch(struct interrupts *interrupts);
/* True if one has come. */
bool interrupts_came(struct interrupts *interrupts);
void interrupts_release(struct interrupts *interrupts);
