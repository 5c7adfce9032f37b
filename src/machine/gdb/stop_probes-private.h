/* SPDX-License-Identifier: MIT */
/*
 * What the parts of these probes share: their sets and breakpoints (stop_probes.c), what becomes of
 * vCPUs that stand at them (stop_steps.c), and who hands the hits out (stop_hits.c).
 */
#pragma once

#include "machine/gdb/stop_probes.h"

#define VMS_STOP_LOCK(mutex)                                                                       \
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(mutex)

/* Probes that were armed together. */
struct vms_stop_set {
	struct vms_probes probes;
	struct vms_stop_probes *all;
	struct vms_place *places; /* with copies of their programs */
	size_t n;
	int vcpu;
	uint64_t max_hits;
	void (*hit)(const struct vms_hit *hit, void *data);
	void *data;
	atomic_bool is_armed;
	char *reason; /* why it was taken away, or NULL. Under the machine's lock. */
	_Atomic uint64_t hits, rejected, unknown;
};

enum vms_stop_state { VMS_STOP_FREE, VMS_STOP_ARRIVED, VMS_STOP_HANDED_OUT, VMS_STOP_STEPPED };

/* Tells a visit of a vCPU at a place from the next one. */
struct vms_stop_visit {
	uint64_t pc, sp, root;
};

struct vms_stop_vcpu {
	enum vms_stop_state state;
	struct vms_stop_visit visit; /* of this stop */
	bool is_known;		     /* it is the pending one */
	/* Hits that were handed out, and whose instruction was not executed as far as we know. */
	bool is_pending;
	struct vms_stop_visit pending;
};

/* ---- sets and breakpoints, under the machine's lock ---- */

/* The breakpoints, as an array. */
struct vms_gdb_point *vms_stop_points(const struct vms_stop_probes *all);
/* The breakpoint there, or NULL. */
struct vms_gdb_point *vms_stop_find_point(const struct vms_stop_probes *all, uint64_t va);
/* True if a breakpoint there is wanted. */
bool vms_stop_is_wanted(const struct vms_stop_probes *all, uint64_t va);
/* Forgets breakpoints that are not wanted and not set. */
void vms_stop_drop_points(struct vms_stop_probes *all);
/* Ends a set. Its breakpoints stay until the stub removes them. */
void vms_stop_end_set(struct vms_stop_set *set);
/* Returns false, with an error, if there is a reason for which probes were taken away. */
bool vms_stop_check_reason(const struct vms_stop_probes *all, const char *reason, GError **error);

/* ---- vCPUs, under the machine's lock ---- */

/* True if some vCPU is in that state. */
bool vms_stop_has_state(const struct vms_stop_probes *all, enum vms_stop_state state);
