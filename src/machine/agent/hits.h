/* SPDX-License-Identifier: MIT */
/*
 * The hits of a set of probes, as they come out of the rings that the agent shares: checked, and in
 * the order of their numbers. Nothing that stands in this memory is believed. What makes no sense
 * ends the reading of its ring; its hits are lost.
 */
#pragma once

#include "machine/probes.h"

/* What the hits may be. */
struct vms_hits_expected {
	size_t n_places;
	uint64_t max_hits;	   /* 0: no limit */
	const unsigned *cpu_index; /* the agent's index of each vCPU; valid as long as the hits */
	unsigned n_vcpus;
};

typedef struct vms_hits vms_hits;

/*
 * `memory` is the caller's, and stays mapped as long as the hits live. `hit` gets all of them in
 * vms_hits_take. Errors: PROTOCOL (the memory is not laid out as it has to be).
 */
struct vms_hits *vms_hits_new(void *memory, size_t size, const struct vms_hits_expected *expected,
			      void (*hit)(const struct vms_hit *hit, void *data), void *data,
			      GError **error);
void vms_hits_free(struct vms_hits *hits);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_hits, vms_hits_free)

/*
 * Hands out what has come, and returns how many hits that are. A hit waits for those before it, a
 * second at most. `all`: no more come, so nothing waits. In one thread at a time.
 */
size_t vms_hits_take(struct vms_hits *hits, bool all);
/*
 * Takes what has come out of the rings, so that no vCPU waits for room, and keeps it for
 * vms_hits_take. In one thread at a time.
 */
void vms_hits_collect(struct vms_hits *hits);

/* The next are for any thread. */

/* Has the agent wake this client at the next hit. To be followed by vms_hits_take, then a wait. */
void vms_hits_set_sleeps(struct vms_hits *hits, bool sleeps);
/* True if the limit was reached: nothing is armed any more. Hits may still have to be taken. */
bool vms_hits_is_stopped(const struct vms_hits *hits);
void vms_hits_counts(const struct vms_hits *hits, struct vms_probes_counts *ret);
