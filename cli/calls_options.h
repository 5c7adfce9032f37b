/* SPDX-License-Identifier: MIT */
/* The options of a call trace, which "calls" and "run --calls" share. */
#pragma once

#include <vmscope/calls.h>

#define CALLS_PIDS_MAX 64

/* As they stand on the command line. */
struct calls_words {
	char *by, *clock, *depth, *min_time, *sysroot, *max_size;
	char **only, **without, **start_at, **stop_at, **processes;
	gboolean kernel, user;
};

/* Entries for all of them and then those of `own`; to be freed. */
GOptionEntry *calls_entries(struct calls_words *words, const GOptionEntry *own);
/*
 * What they ask for. `pids` gets the processes, of which `ret` and `words` keep the lists. Errors:
 * usage.
 */
bool calls_parse(const struct calls_words *words, struct vms_calls_options *ret,
		 uint32_t pids[CALLS_PIDS_MAX], GError **error);
bool calls_words_given(const struct calls_words *words);
void calls_words_clear(struct calls_words *words);
/* Checks that a trace can be written into a directory: it is not there, or is empty. */
bool calls_check_directory(const char *path, GError **error);
