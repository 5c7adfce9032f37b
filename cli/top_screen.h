/* SPDX-License-Identifier: MIT */
/* The live view of "vmscope top". */
#pragma once

#include "top_rows.h"

/*
 * Shows rounds on the terminal until the user quits, a signal comes, or the guest has gone. `view`
 * is what is shown at first; a signal may hurry the budget (end_signals.h). Errors: UNSUPPORTED
 * (built without ncurses), IO (no such terminal), CLOSED (the machine has gone).
 */
bool top_screen_show(struct top_rounds *rounds, struct top_view view, struct vms_budget *budget,
		     GError **error);
