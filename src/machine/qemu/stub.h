/* SPDX-License-Identifier: MIT */
/*
 * A QEMU whose registers, stops and goes come from a gdb stub. The stub is added through the QMP
 * socket when the machine has to be stopped for the first time, and removed in the end.
 */
#pragma once

#include "base/timer.h"
#include "machine/gdb/gdb.h"
#include "machine/qemu/guard.h"
#include "machine/qemu/qemu.h"

/* By whose stop the machine stands still, while it is held. */
enum vms_standing {
	VMS_NOT_HELD,
	VMS_STANDS_BY_US,
	VMS_STANDS_BY_OTHERS, /* its owner's, or the guest's: nothing to release */
	VMS_RUNS_ON,	      /* not at all: it is only observed */
};

struct vms_qemu_stub {
	struct vms_qemu qemu;
	struct vms_gdb gdb;
	struct vms_guard *guard; /* from the first hold that needs the stub on */
	char *label;		 /* of our chardev, which tells others whose it is */
	bool connected;		 /* there is a stub, and `gdb` is its client */

	_Atomic int standing;	  /* enum vms_standing */
	enum vms_run_state state; /* in which it was found */
	uint64_t resumes;	  /* of QMP's counts, when it was found so */
	uint64_t guest_stops;
	uint64_t jobs;
	bool must_resume;     /* an event is to tell of the last release */
	uint64_t asked_ns;    /* when its condition was asked for last */
	char *ended_by;	      /* why our hold ended before its release, or NULL */
	bool told_slow;	      /* logged that memory is read through the stub */
	bool checked_watcher; /* nobody else is connected to a monitor, or may be disturbed */

	struct vms_timer *timer; /* ends holds that have to end, tries again what QEMU refused */
};

/* See vms_qemu_open. */
struct vms_machine *vms_qemu_stub_open(const char *const *addresses, pid_t pid, GError **error);

/*
 * Adds the gdb stub and connects to it, which stops a machine that runs, or sleeps (stub.c).
 * *stopped: it has; set on failure, too. The guard is there, and knows of the hold.
 */
bool vms_qemu_add_stub(struct vms_qemu_stub *stub, bool *stopped, GError **error);
/* Closes the connection and removes the stub, if there is one. */
bool vms_qemu_remove_stub(struct vms_qemu_stub *stub, GError **error);

/* Removes the stub of QEMU and its chardev `label`; the descriptor of that name. */
bool vms_qemu_remove_server(struct vms_qemu *qemu, const char *label, GError **error);
bool vms_qemu_close_descriptor(struct vms_qemu *qemu, const char *label);
