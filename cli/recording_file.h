/* SPDX-License-Identifier: MIT */
/* Recordings that commands show. */
#pragma once

#include "session.h"

/*
 * Reads a recording. What is missing in a damaged file becomes the session's loss. Errors: those of
 * vms_recording_load.
 */
struct vms_recording *open_recording(struct session *session, const char *path, GError **error);
