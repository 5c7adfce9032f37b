/* SPDX-License-Identifier: MIT */
/* Samples guests round after round, in a thread of its own, for "vmscope top". */
#pragma once

#include "session.h"

/* What a round has found in a guest. */
struct top_guest {
	char *name;
	pid_t pid; /* of the process that runs it; 0: unknown */
	unsigned vcpus;
	uint64_t samples, idle, missed; /* of all vCPUs */
	char *obstacle; /* why it was not sampled, or not for all of the round; NULL: it was */
	struct vms_profile *profile; /* a tree for each vCPU; NULL: nothing was sampled */
};

struct top_round {
	GPtrArray *guests; /* struct top_guest */
};

void top_round_free(struct top_round *round);

struct top_rounds_options {
	uint64_t interval_us, duration_ns; /* of samples; of a round */
	const char *pattern;		   /* of guests' names; NULL: the session's guest alone */
};

/*
 * Starts the rounds. Without a pattern the session's guest must be open. The session must stay
 * until they have ended. Errors: INVALID_ARGUMENT (the interval), IO (machines cannot be listed).
 */
struct top_rounds *top_rounds_start(struct session *session,
				    const struct top_rounds_options *options, GError **error);
/* Returns the last round if it was not taken yet, or else NULL. Waits for it until `until_ns`. */
struct top_round *top_rounds_take(struct top_rounds *rounds, uint64_t until_ns);
/* True if the only guest has gone: there will be no other round. */
bool top_rounds_ended(struct top_rounds *rounds);
/* Ends the round that goes on early. It is the last one, and can be taken. */
void top_rounds_finish(struct top_rounds *rounds);
void top_rounds_free(struct top_rounds *rounds);
