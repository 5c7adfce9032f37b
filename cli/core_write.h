/* SPDX-License-Identifier: MIT */
/* Writing a core file in front of a user: progress, and signals that cancel it. */
#pragma once

#include "session.h"
#include <vmscope/dump.h>

/*
 * Writes the session's machine into the core file `path`. SIGINT, SIGTERM and SIGHUP cancel it, a
 * second one ends the process at once.
 */
bool core_write(struct session *session, const char *path, const struct vms_dump_options *options,
		struct vms_dump_result *ret, GError **error);
