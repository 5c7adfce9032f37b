/* SPDX-License-Identifier: MIT */
/* Why an engine refuses to hold a machine. */
#pragma once

#include <stdbool.h>
#include <vmscope/error.h>

/*
 * True if `failure` says that vCPUs must not be stopped now: the machine's state or another client
 * is in the way. Memory can be read nevertheless, and a later hold may succeed.
 */
static inline bool vms_hold_was_refused(const GError *failure)
{
	return g_error_matches(failure, VMS_ERROR, VMS_ERROR_NOT_NOW) ||
	       g_error_matches(failure, VMS_ERROR, VMS_ERROR_WATCHED) ||
	       g_error_matches(failure, VMS_ERROR, VMS_ERROR_BUSY);
}
