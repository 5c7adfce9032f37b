/* SPDX-License-Identifier: MIT */
/* Errors: one GError domain for the whole library. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define VMS_ERROR (vms_error_quark())
GQuark vms_error_quark(void);

/*
 * Every function that can fail takes `GError **error` last and sets one of
 * these codes. The message is one line: what was tried, on what, why it failed
 * and what would help.
 */
enum vms_error {
	VMS_ERROR_INVALID_ARGUMENT, /* the caller asked for something outside the documented range
				     */
	VMS_ERROR_INVALID_STATE, /* not now: the object is in another state; nothing was changed */
	VMS_ERROR_NOT_FOUND,	 /* no such process, socket, symbol, task, register … */
	VMS_ERROR_EXISTS,	 /* it is there already and is not overwritten */
	VMS_ERROR_PERMISSION,	 /* the operating system refused */
	VMS_ERROR_BUSY,		 /* somebody else is using it */
	VMS_ERROR_PROTOCOL,	 /* a peer sent something that its protocol does not allow */
	VMS_ERROR_TIMEOUT,	 /* a peer did not answer in time */
	VMS_ERROR_CLOSED,	 /* a peer or the machine has gone */
	VMS_ERROR_UNSUPPORTED,	 /* this machine, guest or build cannot do it */
	VMS_ERROR_UNREADABLE,	 /* guest memory that is not there */
	VMS_ERROR_MALFORMED,	 /* data from a guest or a file that contradicts itself */
	VMS_ERROR_IO,		 /* a file or a system call failed */
	VMS_ERROR_CANCELLED,	 /* the caller no longer wants it */
	VMS_ERROR_NOT_NOW,	 /* a migration, snapshot or backup is under way: try again later */
	VMS_ERROR_WATCHED, /* it may be stopped only if that is allowed: another client watches it
			    */
	VMS_ERROR_WAITING, /* a vCPU waits for one that is held: let that go, and try again */
	VMS_ERROR_GONE_ON, /* a brief hold was over before all had been read: hold again */
};

G_END_DECLS
