/* SPDX-License-Identifier: MIT */
/* Errors. The whole library has one GError domain. */
#pragma once

#include <vmscope/declare.h>

VMS_BEGIN_DECLS

#define VMS_ERROR (vms_error_quark())
GQuark vms_error_quark(void);

/*
 * Every function that can fail takes `GError **error` last and sets one of these codes. The message
 * is one line. It says what was tried, on what, why it failed and what would help.
 */
enum vms_error {
	/* The caller asked for something outside the documented range. */
	VMS_ERROR_INVALID_ARGUMENT,
	/* The object is in a state that does not allow this. Nothing was changed. */
	VMS_ERROR_INVALID_STATE,
	/* There is no such process, socket, symbol, task, register … */
	VMS_ERROR_NOT_FOUND,
	/* The target exists already, and is not overwritten. */
	VMS_ERROR_EXISTS,
	/* The operating system refused access. */
	VMS_ERROR_PERMISSION,
	/* Another program is using it. */
	VMS_ERROR_BUSY,
	/* A peer sent something that its protocol does not allow. */
	VMS_ERROR_PROTOCOL,
	/* A peer did not answer in time. */
	VMS_ERROR_TIMEOUT,
	/* A peer closed the connection, or the machine has ended. */
	VMS_ERROR_CLOSED,
	/* This machine, guest or build cannot do it. */
	VMS_ERROR_UNSUPPORTED,
	/* There is no guest memory at this address. */
	VMS_ERROR_UNREADABLE,
	/* Data from a guest or a file contradicts itself. */
	VMS_ERROR_MALFORMED,
	/* A file or a system call failed. */
	VMS_ERROR_IO,
	/* The caller cancelled it. */
	VMS_ERROR_CANCELLED,
	/* A migration, a snapshot or a backup is under way. Try again later. */
	VMS_ERROR_NOT_NOW,
	/*
	 * Another client watches the machine. It is stopped only if vms_machine_allow_stop is set.
	 */
	VMS_ERROR_WATCHED,
	/* A vCPU waits for another one that is held. Release that one, and try again. */
	VMS_ERROR_WAITING,
	/* A brief hold ended before everything had been read. Hold the vCPU again. */
	VMS_ERROR_GONE_ON,
	/*
	 * To interpret what a guest, a file or a peer holds costs more than it may: see
	 * <vmscope/budget.h>.
	 */
	VMS_ERROR_BUDGET,
};

VMS_END_DECLS
