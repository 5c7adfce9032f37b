/* SPDX-License-Identifier: MIT */
/* How `vmscope stack` shows stacks. */
#pragma once

#include "walked.h"

enum stack_kind {
	STACKS_OF_VCPUS,
	STACKS_OF_THREADS,
	STACKS_GROUPED, /* of threads, those with the same functions once */
};

/* Appends the stacks, an array of struct walked, to the session's output, as text or JSON. */
void output_stacks(struct session *session, GPtrArray *stacks, enum stack_kind kind);
