/* SPDX-License-Identifier: MIT */
/*
 * QEMU's run states (qapi/run-state.json), and what they allow: whether a machine may be stopped,
 * and what undoes a stop of ours. The tool and the watchdog decide by the same two functions, and
 * both use them on text that QEMU sent: nothing here takes a lock or allocates memory.
 *
 * Why a state follows from a stop of ours is QEMU's code, system/runstate.c and system/cpus.c:
 * a stop makes `paused` of `running`, a reset makes `prelaunch` of it, a suspend `suspended`, a
 * migration `finish-migrate` and then `postmigrate`. Every other state comes from `running` alone:
 * then somebody has let the machine run on before, and our stop is over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum vms_run_state {
	VMS_RUN_UNKNOWN, /* of a QEMU that is newer than this program */
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

/* The state that QEMU calls so; `name` need not end with a zero byte. */
enum vms_run_state vms_run_state_parse(const char *name, size_t size);
/* What QEMU calls it. */
const char *vms_run_state_name(enum vms_run_state state);

/* What a machine in that state, which does not run, waits for, and how it is made to go on. */
const char *vms_run_state_advice(enum vms_run_state state);

/* Is a migration of this status of query-migrate (qapi/migration.json) set up or under way? */
bool vms_migration_is_active(const char *status);

/* What a hold does with a machine. */
enum vms_hold_way {
	VMS_HOLD_BY_STOP,  /* it runs: stop it */
	VMS_HOLD_AS_IT_IS, /* it stands still, by no doing of ours: look at it, change nothing */
	VMS_HOLD_NOT_NOW,  /* its memory is on its way from or to somewhere: wait until that is over
			    */
};
/* `busy`: a migration, a snapshot or a backup is set up or under way. */
enum vms_hold_way vms_run_state_hold_way(enum vms_run_state state, bool busy);

/* What undoes a stop of ours. */
enum vms_release_way {
	VMS_RELEASE_NOTHING,   /* it runs, or stands still for another reason than our stop */
	VMS_RELEASE_CONT,      /* `cont` */
	VMS_RELEASE_STOP_CONT, /* `stop` and `cont`: it fell asleep with its clocks stopped by us */
	VMS_RELEASE_LATER,     /* nothing yet: a migration is about to end, or to fail */
};
enum vms_release_way vms_run_state_release_way(enum vms_run_state state);

/*
 * Does an event of QEMU's, of this name and with this member `action`, stop a running machine? One
 * that we have stopped stays `paused` then, and is to stay so. `action` may be NULL.
 */
bool vms_event_stops(const char *event, const char *action);
