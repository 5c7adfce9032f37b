/* SPDX-License-Identifier: MIT */
/* Records of a flow trace as a timeline, for ui.perfetto.dev and other viewers of trace events. */
#pragma once

#include "session.h"

/*
 * Writes a file in the Trace Event Format (JSON), with a track for each thread of the guest, and
 * one for each vCPU that executes no known thread or idles. A hit is an instant. A call that was
 * followed is a slice from the call to the return. `begin_ns`: times are counted from it. The file
 * appears when it is complete. Errors: IO, PERMISSION.
 */
bool flow_timeline_write(struct session *session, const struct vms_flow_report *report,
			 uint64_t begin_ns, const char *path, GError **error);
