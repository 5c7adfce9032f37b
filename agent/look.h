/* SPDX-License-Identifier: MIT */
/*
 * Looks: a vCPU waits until the client has looked at the guest, because something is new: the
 * guest's kernel, or a module that is about to run.
 *
 * Each vCPU has a struct look. The counters are in memory that the agent shares with the client:
 * `looks` counts what all vCPUs have asked for, and `looked` is how many of these the client has
 * answered.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The last look that a vCPU asked for. */
struct look {
	uint32_t number; /* of the look; what `looks` was after it was asked for */
	uint64_t end_ns; /* until when the vCPU waits for the answer; 0: it has never asked */
};

/*
 * Asks for a look. True if the vCPU must wait for it. It must not if the client did not answer its
 * last one in time.
 */
bool look_ask(struct look *look, _Atomic uint32_t *looks, const _Atomic uint32_t *looked);
/* True if the look is not answered and its time is not over. */
bool look_is_awaited(const struct look *look, const _Atomic uint32_t *looked);
/* Waits for a moment. Called in a vCPU that was kicked, without a lock. */
void look_pause(void);
