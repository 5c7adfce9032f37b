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
	bool waits;	  /* its instruction waits for an interrupt: steps of it do not end */
};

/*
 * Removes what is set, or sets what is not, in one round trip. The stub may refuse some: is_set
 * tells. Errors: those of the connection; then nothing is known of any of them.
 */
bool vms_gdb_set_points(struct vms_gdb *gdb, struct vms_gdb_point *points, size_t n, bool set,
			GError **error);
/*
 * Removes all breakpoints that any client has set. `last_thread` is the greatest id of a vCPU: QEMU
 * keeps a list for each under TCG.
 */
bool vms_gdb_clear_points(struct vms_gdb *gdb, uint64_t last_thread, GError **error);
/*
 * Ends single steps that were begun over a connection which broke: QEMU keeps stopping a vCPU after
 * every instruction then, until a step of it has ended for a client. So every vCPU of the stopped
 * machine is stepped once. Where that takes too long it is interrupted: `stopped_by_request` is set
 * then, and the machine stands still by that.
 */
bool vms_gdb_end_lost_steps(struct vms_gdb *gdb, uint64_t last_thread, GError **error);

/* What QEMU's monitor says behind the stub. Clear it by vms_gdb_look_clear. */
struct vms_gdb_look {
	char *status;	 /* `info status` */
	char *migration; /* `info migrate`: nothing if there was none yet */
};

/*
 * Asks for that, and for the registers of the first vCPUs in the same round trip. If the machine
 * was running, `stopped_by_request` is set, and it stands still now.
 */
bool vms_gdb_look(struct vms_gdb *gdb, struct vms_gdb_look *ret, GError **error);
void vms_gdb_look_clear(struct vms_gdb_look *look);

/* How a step has ended. */
enum vms_gdb_step_end {
	VMS_STEP_DONE,
	VMS_STEP_INTERRUPTED, /* it did not end, for example in HLT: we have stopped the machine */
	VMS_STEP_STOPPED,     /* somebody else has stopped the machine */
};

struct vms_gdb_step {
	unsigned vcpu;
	bool removes; /* the point, first */
	uint64_t limit_ns;
	enum vms_gdb_step_end end;
	uint64_t pc; /* of the vCPU before the step */
};

/*
 * Lets a vCPU of the stopped machine execute one instruction, at which there may be `point`, while
 * the others stand still. If `stopped_by_request` is set afterwards, the machine was running
 * before. While it lasts, `hold` says so to the watchdog.
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
