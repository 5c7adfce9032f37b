/* SPDX-License-Identifier: MIT */
/* Writes records of a flow trace as a timeline for ui.perfetto.dev and other trace viewers. */
#pragma once

#include "session.h"

/*
 * Writes a file in the Trace Event Format (JSON). Each thread of the guest has a track. A vCPU has
 * a track if it was idle or its thread was unknown at a hit. A hit is an instant. A followed call
 * is a slice from the call to the return. Times are relative to `begin_ns`. The file appears when
 * it is complete. Errors: IO, PERMISSION.
 */
bool flow_timeline_write(struct session *session, const struct vms_flow_report *report,
			 uint64_t begin_ns, const char *path, GError **error);
