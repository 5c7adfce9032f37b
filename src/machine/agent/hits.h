/* SPDX-License-Identifier: MIT */
/*
 * Reads the hits of a set of probes from the rings that the agent shares, checks them, and delivers
 * them in the order of their numbers. Nothing in this memory is trusted. Malformed data ends the
 * reading of its ring, and the ring's hits are lost.
 */
#pragma once

#include "machine/probes.h"

/* Limits of valid hits. */
struct vms_hits_expected {
	size_t n_places;
	uint64_t max_hits;	   /* 0: no limit */
	const unsigned *cpu_index; /* the agent's index of each vCPU; valid as long as the hits */
	unsigned n_vcpus;
};

typedef struct vms_hits vms_hits;

/*
 * The caller keeps `memory` mapped as long as the hits exist. vms_hits_take calls `hit` for each
 * hit. Errors: PROTOCOL (the layout of the memory is wrong).
 */
struct vms_hits *vms_hits_new(void *memory, size_t size, const struct vms_hits_expected *expected,
			      void (*hit)(const struct vms_hit *hit, void *data), void *data,
			      GError **error);
void vms_hits_free(struct vms_hits *hits);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_hits, vms_hits_free)

/*
 * Delivers the hits that have arrived, and returns how many. A hit waits for earlier ones for a
 * second at most. `all`: the agent writes no more, so no hit waits. One thread at a time.
 */
size_t vms_hits_take(struct vms_hits *hits, bool all);
/*
 * Empties the rings, so that no vCPU waits for room, and keeps the hits for vms_hits_take. One
 * thread at a time.
 */
void vms_hits_collect(struct vms_hits *hits);

/* ---- for any thread ------------------------------------------------------------------ */

/* Makes the agent wake this client at the next hit. Call vms_hits_take after it, then wait. */
void vms_hits_set_sleeps(struct vms_hits *hits, bool sleeps);
/* True if the limit was reached, so that no probe is armed. There may be hits left to take. */
bool vms_hits_is_stopped(const struct vms_hits *hits);
void vms_hits_counts(const struct vms_hits *hits, struct vms_probes_counts *ret);
