/* SPDX-License-Identifier: MIT */
/* Coverage with its options, which "coverage" and "run --coverage" share. */
#pragma once

#include "session.h"

/* The options as text from the command line. */
struct coverage_words {
	char *from, *to, *functions, *lcov, *drcov, *max_blocks;
	gboolean never;
};

struct coverage_job {
	const struct coverage_words *words;
	uint64_t duration_ns; /* 0: no limit */
	bool show_progress;
	/* Called as soon as the coverage has begun. NULL if the machine runs already. */
	bool (*started)(void *data, GError **error);
	void *data;   /* passed to `started` */
	bool stopped; /* set by a source of the main context, to end the coverage */
	enum vms_coverage_end end;
};

/* Fills `ret`, which has room for COVERAGE_ENTRIES. */
#define COVERAGE_ENTRIES 7
void coverage_entries(struct coverage_words *words, GOptionEntry ret[COVERAGE_ENTRIES]);
bool coverage_words_given(const struct coverage_words *words);
void coverage_words_clear(struct coverage_words *words);
/*
 * Measures the coverage of the session's guest until its end, writes the files that the options
 * name, and appends the table to the session's output. Runs the main context's sources during this.
 */
bool coverage_job_run(struct coverage_job *job, struct session *session, GError **error);
