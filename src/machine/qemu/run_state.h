/* SPDX-License-Identifier: MIT */
/*
 * QEMU's run states (qapi/run-state.json), and what they allow: whether a machine may be stopped,
 * and what undoes a stop of ours. The tool and the watchdog decide by the same two functions.
 * Nothing here takes a lock or allocates memory, because the watchdog must not.
 *
 * A machine that we have stopped can only be in some states (QEMU's system/runstate.c and
 * system/cpus.c). A stop makes `running` into `paused`. From there a reset makes `prelaunch`, a
 * suspend `suspended`, and a migration `finish-migrate` and then `postmigrate`. Every other state
 * follows only from `running`: then somebody has resumed the machine, and our stop is over.
 *
 * A breakpoint of ours makes `running` into `debug`. From there a reset makes `prelaunch`, a
 * suspend of the same moment `suspended`, and a migration `finish-migrate`. A `stop` changes
 * nothing there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum vms_run_state {
	VMS_RUN_UNKNOWN, /* a state of a QEMU that is newer than this program */
	VMS_RUN_RUNNING,
	VMS_RUN_PAUSED,
	VMS_RUN_SUSPENDED, /* the guest sleeps (ACPI S3) */
	VMS_RUN_PRELAUNCH,
	VMS_RUN_INMIGRATE,
	VMS_RUN_FINISH_MIGRATE,
	VMS_RUN_POSTMIGRATE,
	VMS_RUN_SAVE_VM,
	VMS_RUN_RESTORE_VM,
	VMS_RUN_COLO,
	VMS_RUN_IO_ERROR,
	VMS_RUN_INTERNAL_ERROR,
	VMS_RUN_GUEST_PANICKED,
	VMS_RUN_WATCHDOG,
	VMS_RUN_SHUTDOWN,
	VMS_RUN_DEBUG,
	VMS_RUN_N_STATES,
};

/* The state by QEMU's name of `size` bytes, which need not end with a zero byte. */
enum vms_run_state vms_run_state_parse(const char *name, size_t size);
/* The state in what the monitor's `info status` says: "running", or "paused (suspended)". */
enum vms_run_state vms_run_state_parse_status(const char *status, size_t size);
/* QEMU's name of a state. */
const char *vms_run_state_name(enum vms_run_state state);

/* What a machine in that state, which does not run, waits for, and what makes it go on. */
const char *vms_run_state_advice(enum vms_run_state state);

/* True if a migration with this status (query-migrate, qapi/migration.json) is under way. */
bool vms_migration_is_active(const char *status);

/* What a hold does with a machine. */
enum vms_hold_way {
	VMS_HOLD_BY_STOP,  /* it runs: stop it */
	VMS_HOLD_AS_IT_IS, /* others have stopped it: read it, and change nothing */
	VMS_HOLD_NOT_NOW,  /* its memory is being moved: wait until that is over */
};
/* `busy` says that a migration, a snapshot or a backup is under way. */
enum vms_hold_way vms_run_state_hold_way(enum vms_run_state state, bool busy);

/* What undoes a stop of ours. */
enum vms_release_way {
	VMS_RELEASE_NOTHING,   /* do nothing: it runs, or stands still for another reason */
	VMS_RELEASE_CONT,      /* send `cont` */
	VMS_RELEASE_STOP_CONT, /* send `stop` and `cont`: it sleeps, with its clocks stopped by us
				*/
	VMS_RELEASE_LATER,     /* try again later: a migration is about to end, or to fail */
};
/* `owns_hits`: breakpoints of ours are in the machine, and make it `debug`. */
enum vms_release_way vms_run_state_release_way(enum vms_run_state state, bool owns_hits);
/*
 * True if a machine that has just stopped, by a breakpoint of ours as far as is known, may be in
 * this state. `prelaunch` and `suspended` may have other causes.
 */
bool vms_run_state_may_follow_hit(enum vms_run_state state);

/*
 * True if an event of this name and with this member `action`, which may be NULL, stops a running
 * machine. A machine that we have stopped stays `paused` then, and must not be resumed by us.
 */
bool vms_event_stops(const char *event, const char *action);
