/* SPDX-License-Identifier: MIT */
/* The options of a call trace, which "calls" and "run --calls" share. */
#pragma once

#include <vmscope/calls.h>

#define CALLS_PIDS_MAX 64

/* The options as text from the command line. */
struct calls_words {
	char *by, *clock, *depth, *min_time, *max_size;
	char **only, **without, **start_at, **stop_at, **processes;
	gboolean kernel, user;
};

/* Returns the entries of a call trace, then those of `own`. The caller frees the array. */
GOptionEntry *calls_entries(struct calls_words *words, const GOptionEntry *own);
/*
 * Parses the options into `ret`. Fills `pids` with the processes. `ret` points into `words` and
 * `pids`, which must live as long. Errors: usage errors.
 */
bool calls_parse(const struct calls_words *words, struct vms_calls_options *ret,
		 uint32_t pids[CALLS_PIDS_MAX], GError **error);
/* True if any option of a call trace was given. */
bool calls_words_given(const struct calls_words *words);
void calls_words_clear(struct calls_words *words);
/* Checks that `path` can take a trace: it is new, or an empty directory. Errors: EXISTS. */
bool calls_check_directory(const char *path, GError **error);
