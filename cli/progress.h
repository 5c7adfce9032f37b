/* SPDX-License-Identifier: MIT */
/*
 * A line on the terminal that tells how far a job is. A thread of its own prints it, so that a
 * stopped terminal (Ctrl-S) delays neither the job nor a signal.
 */
#pragma once

#include <glib.h>

struct progress;

/*
 * Shows a line ten times a second. `describe` returns it, newly allocated, or NULL while there is
 * nothing to show. It is called from the progress's own thread.
 */
struct progress *progress_start(char *(*describe)(void *data), void *data);
/*
 * Removes the line. It may wait for the terminal, so call it after the job has ended. `progress`
 * may be NULL.
 */
void progress_end(struct progress *progress);
