/* SPDX-License-Identifier: MIT */
/* Serves a profile to the browser of this host. */
#pragma once

#include "session.h"

/* Returns the format that is served if none was asked for. */
const struct vms_exporter *profile_server_default(void);

/*
 * Serves `profile`, which is in the format of the exporter, on the loopback interface, at a path
 * that nobody can guess, and opens the viewer of that format in a browser. Returns after a signal,
 * or when nobody has asked for the profile for `idle_ns`. Takes the profile. Errors: UNSUPPORTED
 * (no viewer is known for the format), IO.
 */
bool serve_profile(const struct session *session, const struct vms_exporter *exporter,
		   GString *profile, uint64_t idle_ns, GError **error);
