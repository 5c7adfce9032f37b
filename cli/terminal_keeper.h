/* SPDX-License-Identifier: MIT */
/*
 * Puts the terminal back if this process is killed while it uses all of it. A process of its own,
 * "vms-terminal", waits for the end of this one: nothing else would be left after a SIGKILL.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

typedef struct terminal_keeper terminal_keeper;

/*
 * Notes how the terminal of standard output is now. `restore` is what to send to it. Call it before
 * anything is changed. Errors: IO.
 */
struct terminal_keeper *terminal_keeper_start(const char *restore, GError **error);
/* Ends the keeper: the terminal has been put back. */
void terminal_keeper_end(struct terminal_keeper *keeper);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(terminal_keeper, terminal_keeper_end)
