/* SPDX-License-Identifier: MIT */
/*
 * Probes by breakpoints of a gdb stub, which stop the whole machine. At a stop every vCPU that
 * stands at a place is a hit: its programs are run, it is stepped over the place, and the machine
 * goes on.
 *
 *            the machine stops at a breakpoint
 *                          │
 *   FREE ──► ARRIVED ──► HANDED_OUT ──► FREE          each vCPU
 *            (programs     (step)  └──► STEPPED ──► FREE
 *             to be run)                (programs for after the instruction to be run)
 *
 * A vCPU that is resumed by somebody else before its step stops at the same place once more: it is
 * known by its program counter, stack and address space, and does not count again.
 */
#pragma once

#include "machine/gdb/breakpoints.h"
#include "machine/probes.h"
#include <vmscope/memory.h>

struct vms_stop_probes;

/* What an engine does for its probes. */
struct vms_stop_operations {
	/*
	 * Makes the stub of the held machine usable for requests, and tells the watchdog that there
	 * may be breakpoints. `end` follows if it succeeds. Under the machine's lock.
	 */
	bool (*begin)(struct vms_machine *machine, GError **error);
	void (*end)(struct vms_machine *machine);
	/*
	 * Waits until the machine may stand at a breakpoint, or the deadline. Returns false if no
	 * more hits can come. *stands is false if there is nothing to look at. Without a lock.
	 */
	bool (*wait)(struct vms_machine *machine, uint64_t deadline_ns, bool *stands,
		     GError **error);
};

/* All probes of a machine. Behind the machine's lock, unless said otherwise. */
struct vms_stop_probes {
	struct vms_machine *machine;
	struct vms_gdb *gdb;
	const struct vms_stop_operations *operations;
	struct vms_hold *hold; /* what the watchdog knows; NULL before the first are armed */
	bool is_hardware;      /* breakpoints use the processor's debug registers */
	GMutex taking;	 /* who hands out hits, arms or disarms; taken before the machine's lock */
	GPtrArray *sets; /* struct vms_stop_set: those that are not freed */
	GArray *points;	 /* struct vms_gdb_point */
	struct vms_stop_vcpu *vcpus;  /* n_vcpus of them; NULL: nothing was armed yet */
	struct vms_memory **memories; /* by vCPU; behind `taking` */
	uint8_t *output;	      /* of a program; behind `taking` */
	atomic_uint n_armed;	      /* sets */
	/*
	 * Our interrupt has ended a step, since that took too long: the machine stands still by us
	 * in another state than by a breakpoint.
	 */
	bool is_interrupted;
	int departing;	  /* a vCPU that was stepped, and may stand at its place still; or -1 */
	bool halts;	  /* a hit asks for the machine to stay where it is */
	uint64_t time_ns; /* of the stop */
	char *reason;	  /* why all places were taken away, or NULL */
};

void vms_stop_probes_init(struct vms_stop_probes *all, struct vms_machine *machine,
			  struct vms_gdb *gdb, const struct vms_stop_operations *operations);
void vms_stop_probes_clear(struct vms_stop_probes *all);

/* For struct vms_probe_engine. */
struct vms_probes *vms_stop_probes_arm(struct vms_stop_probes *all,
				       const struct vms_probes_request *request, GError **error);
bool vms_stop_probes_take(struct vms_stop_probes *all, unsigned timeout_ms, GError **error);
bool vms_stop_probes_disarm(struct vms_probes *probes, GError **error);
bool vms_stop_probes_is_armed(struct vms_probes *probes);
void vms_stop_probes_counts(struct vms_probes *probes, struct vms_probes_counts *ret);
void vms_stop_probes_free(struct vms_probes *probes);

/* The functions below are for the engine, under the machine's lock. */

/* True if there may be breakpoints of ours in the machine. */
bool vms_stop_probes_are_set(const struct vms_stop_probes *all);
/* True if the machine stands still by a breakpoint of ours, as far as was seen. */
bool vms_stop_probes_is_at_hit(const struct vms_stop_probes *all);
void vms_stop_probes_set_at_hit(struct vms_stop_probes *all, bool is_at_hit);
/* Forgets where vCPUs have stopped: a reset has put them elsewhere. */
void vms_stop_probes_forget_visits(struct vms_stop_probes *all);
/* Notes which vCPUs of the machine, which a breakpoint has stopped, stand at places. */
bool vms_stop_probes_arrive(struct vms_stop_probes *all, GError **error);

/* What is to be done with a machine that stands at a breakpoint. */
enum vms_stop_departure {
	VMS_DEPART_NOT_YET, /* hits have to be handed out first */
	VMS_DEPART_NEVER,   /* a hit asks for it to stay as it is */
	VMS_DEPART_STOPPED, /* somebody else has stopped it during a step */
	VMS_DEPART_AGAIN,   /* other vCPUs have to be stepped */
	VMS_DEPART_NOW,
};
/*
 * Steps a vCPU whose hits were handed out over its place. *n_steps grows by the number of steps.
 * Errors: those of the connection.
 */
bool vms_stop_probes_step(struct vms_stop_probes *all, enum vms_stop_departure *ret,
			  unsigned *n_steps, GError **error);
/*
 * Puts breakpoints back and makes the machine go on, as `departure` says. `vcpu` and `pc` of it
 * are set here.
 */
bool vms_stop_probes_depart(struct vms_stop_probes *all, struct vms_gdb_departure *departure,
			    GError **error);
/*
 * Takes all breakpoints away from the machine, which may run: see `stopped_by_request` of struct
 * vms_gdb. No set is armed afterwards, for `reason`, which is taken over. False if the connection
 * failed: then breakpoints may be left.
 */
bool vms_stop_probes_take_away(struct vms_stop_probes *all, char *reason, GError **error);
/* Notes that no breakpoint is left, by other means, for `reason`, which is taken over. */
void vms_stop_probes_are_gone(struct vms_stop_probes *all, char *reason);
