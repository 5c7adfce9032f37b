/* SPDX-License-Identifier: MIT */
/*
 * A line on the terminal that tells how far a job is. It is printed by a thread of its own: a
 * terminal that takes nothing (Ctrl-S) delays neither the job nor a signal.
 */
#pragma once

#include <glib.h>

struct progress;

/*
 * Shows a line ten times a second: `describe` gives it, newly allocated, from the progress's
 * thread; NULL shows nothing yet.
 */
struct progress *progress_start(char *(*describe)(void *data), void *data);
/* Removes the line. It may wait for the terminal: not before the job has ended. NULL is none. */
void progress_end(struct progress *progress);
