/* SPDX-License-Identifier: MIT */
/* Recordings that commands show. */
#pragma once

#include "session.h"

/*
 * Reads a recording. What is missing in a damaged file becomes the session's loss. Errors: those of
 * vms_recording_load.
 */
struct vms_recording *open_recording(struct session *session, const char *path, GError **error);
/* Makes a profile of a recording that was read. Errors: those of vms_recording_profile. */
struct vms_profile *make_recording_profile(struct session *session, struct vms_recording *recording,
					   const char *path, unsigned flags, bool leaf_first,
					   GError **error);
