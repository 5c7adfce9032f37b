/* SPDX-License-Identifier: MIT */
/* Serves a profile to the browser of this host. */
#pragma once

#include "session.h"

/*
 * Serves `profile`, which is in the format of the exporter, on the loopback interface, to programs
 * of the user who typed the command and of root, at an address that nobody can guess. Opens the
 * viewer of that format in a browser of that user. Returns after a signal, or when nobody has asked
 * for the profile for `idle_ns`. Takes the profile. Errors: UNSUPPORTED (no viewer is known for the
 * format; the kernel does not tell whose a connection is), INVALID_ARGUMENT (SUDO_UID), PERMISSION
 * (somebody else has used the browser's address), IO.
 */
bool serve_profile(const struct session *session, const struct vms_exporter *exporter,
		   GString *profile, uint64_t idle_ns, GError **error);
