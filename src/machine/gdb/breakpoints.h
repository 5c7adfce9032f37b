/* SPDX-License-Identifier: MIT */
/*
 * Breakpoints and steps by a gdb stub whose client uses `interrupts`. What belongs together goes in
 * one row of requests, since a round trip is what costs.
 */
#pragma once

#include "machine/gdb/gdb.h"

/* A breakpoint of ours. */
struct vms_gdb_point {
	uint64_t va;
	bool is_hardware; /* by the processor's debug registers: the guest's memory stays as it is
			   */
	bool is_set;	  /* the stub has it */
	bool is_unwanted; /* it is to be removed */
};

/*
 * Removes what is set, or sets what is not, in one round trip. The stub may refuse some: is_set
 * tells. Errors: those of the connection; then nothing is known of any of them.
 */
bool vms_gdb_set_points(struct vms_gdb *gdb, struct vms_gdb_point *points, size_t n, bool set,
			GError **error);
/* Removes all breakpoints that any client has set. */
bool vms_gdb_clear_points(struct vms_gdb *gdb, GError **error);

/*
 * Asks QEMU's monitor behind the stub for the state (`info status`), and for the registers of the
 * first vCPUs in the same round trip. If the machine was running, `stopped_by_request` is set, and
 * it stands still now. Returns the monitor's answer, newly allocated.
 */
char *vms_gdb_look(struct vms_gdb *gdb, GError **error);

/* How a step has ended. */
enum vms_gdb_step_end {
	VMS_STEP_DONE,
	VMS_STEP_INTERRUPTED, /* it did not end, for example in HLT: we have stopped the machine */
	VMS_STEP_STOPPED,     /* somebody else has stopped the machine */
};

struct vms_gdb_step {
	unsigned vcpu;
	uint64_t limit_ns;
	enum vms_gdb_step_end end;
	uint64_t pc; /* of the vCPU before the step */
};

/*
 * Removes `point`, if it is set, and lets a vCPU of the stopped machine execute one
 * instruction, while the others stand still. If `stopped_by_request` is set afterwards, the machine
 * was running before.
 */
bool vms_gdb_step(struct vms_gdb *gdb, struct vms_gdb_step *step, struct vms_gdb_point *point,
		  GError **error);

/* What to do after steps. */
struct vms_gdb_departure {
	int vcpu;	/* whose pc to read, or -1 */
	uint64_t pc;	/* what was read */
	const char *go; /* a command of the monitor that makes the machine go on, or NULL */
	char *refusal;	/* what the monitor has answered to `go`, newly allocated */
};

/*
 * Sets those of `points` that are wanted and not set, removes those that are set and not wanted,
 * reads a pc, and lets the machine go on, in one round trip.
 */
bool vms_gdb_depart(struct vms_gdb *gdb, struct vms_gdb_departure *departure,
		    struct vms_gdb_point *points, size_t n, GError **error);
