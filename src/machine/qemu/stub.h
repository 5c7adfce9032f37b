/* SPDX-License-Identifier: MIT */
/*
 * A QEMU whose gdb stub holds the vCPUs and gives their registers. The stub is added through the
 * QMP socket when the machine has to be stopped for the first time, and removed when it is closed.
 */
#pragma once

#include "base/timer.h"
#include "machine/gdb/gdb.h"
#include "machine/gdb/stop_probes.h"
#include "machine/qemu/qemu.h"
#include "machine/qemu/watchdog.h"

/* Whose stop the machine stands still by, while it is held. */
enum vms_standing {
	VMS_NOT_HELD,
	VMS_STANDS_BY_US,
	VMS_STANDS_AT_HIT,    /* a breakpoint of ours has stopped it */
	VMS_STANDS_BY_OTHERS, /* its owner or the guest has stopped it: a release does nothing */
	VMS_RUNS_ON,	      /* it runs, and is only observed */
};

struct vms_qemu_stub {
	struct vms_qemu qemu;
	struct vms_gdb gdb;
	struct vms_watchdog *watchdog; /* from the first hold that needs the stub on */
	char *label;	/* of our chardev: it tells others whose it is (base/owner.h) */
	bool connected; /* the stub was added, and `gdb` is its client */

	_Atomic int standing;	  /* enum vms_standing */
	enum vms_run_state state; /* of the machine when the hold began */
	/* QMP's counts of events when the hold began. */
	uint64_t stops, resumes, guest_stops, jobs;
	bool has_snapshot; /* a disk holds one, as of the last look */
	bool knows_disks;  /* nothing has happened since that look, but `disk_jobs` events */
	uint64_t disk_jobs;
	bool released;	      /* it was not looked yet what has become of the last release */
	uint64_t asked_ns;    /* when QEMU was asked for the last condition that is known; 0: ask */
	uint64_t wanted_ns;   /* when the last hold was begun, before the stop */
	bool takes_long;      /* it lasted so long that what was asked before it was outdated */
	uint64_t question_ns; /* when QEMU was asked what has not been answered yet; 0: not */
	uint64_t check_ns;    /* a hold of ours need not be checked before */
	char *ended_by;	      /* why our hold ended before its release, or NULL */
	bool told_slow;	      /* it was logged that memory is read through the stub */
	/* Registers in QEMU's memory, see stub_registers.c. */
	struct vms_regs *state_regs; /* by vCPU, of this hold; NULL: not looked for */
	bool has_state_regs;	     /* they were read in this hold */
	bool told_state;	     /* it was logged that they are read from there */
	unsigned proof_holds;	     /* holds for which they are still known to be right */
	unsigned proofs_left;	     /* proofs that may still fail */
	bool checked_watcher;	     /* no other client is connected to a monitor */

	struct vms_stop_probes probes;
	int wake; /* an eventfd: the machine may stand at a hit; -1: not made yet */
	uint64_t expected_resumes; /* events of RESUME after which a stop is a new one */
	uint64_t looked_stops;	   /* events of STOP when the machine was looked at last */
	uint64_t left_resumes;	   /* with more events of RESUME, is_left is over */
	uint64_t hit_resets;	   /* events of RESET when the last hit was seen */
	uint64_t stands_since_ns;  /* it waits for its hits to be taken; 0: it does not */

	struct vms_timer *timer; /* ends holds that have to end, and tries again what is owed */
};

/* Opens a QEMU whose gdb stub holds it. Arguments and errors: see vms_qemu_open. */
struct vms_machine *vms_qemu_stub_open(const char *const *addresses, pid_t pid, GError **error);

/*
 * Adds the gdb stub and connects to it, which stops a machine that runs or sleeps (stub.c). Sets
 * *stopped if it has stopped the machine, even when it fails. The watchdog must be there, and know
 * of the hold.
 */
bool vms_qemu_add_stub(struct vms_qemu_stub *stub, bool *stopped, GError **error);
/*
 * Notes for the watchdog, before requests to the stub, that a machine which runs will stand still
 * by them. One that its owner has stopped will not.
 */
void vms_qemu_begin_requests(struct vms_qemu_stub *stub, bool is_running);
/* Sets the error that a machine in this condition cannot be held now, and returns false. */
bool vms_qemu_refuse_hold(const struct vms_qemu *qemu, const struct vms_qemu_condition *now,
			  GError **error);
/*
 * Executes a command that stops a machine which runs, by QMP, whose answers and events come in the
 * order of what has happened. Sets *stopped if the machine stands still by it, or may do so. False
 * without an answer. The caller puts `command->answer`.
 */
bool vms_qemu_stop_by(struct vms_qemu_stub *stub, struct vms_qmp_command *command, bool *stopped,
		      GError **error);
/*
 * Removes the stub, if it was added, and closes the connection. If the stub was given up
 * (`gdb.broken`) in VMS_HOLD_LOOKING, and has told by then that a request has stopped the machine,
 * the phase is VMS_HOLD_OWED afterwards.
 */
bool vms_qemu_remove_stub(struct vms_qemu_stub *stub, GError **error);

/* Remove QEMU's stub with its chardev `label`, and the descriptor of that name. */
bool vms_qemu_remove_server(struct vms_qemu *qemu, const char *label, GError **error);
/*
 * Removes all breakpoints and single steps that a dead tool has left, which shared `hold`, by a
 * stub of its own that is called `label`, while QEMU has none. Sets *stopped if that has stopped
 * the machine. Before that can be, `hold` says so.
 */
bool vms_qemu_clear_breakpoints(struct vms_qemu *qemu, const char *label, struct vms_hold *hold,
				bool *stopped, GError **error);
bool vms_qemu_close_descriptor(struct vms_qemu *qemu, const char *label);
