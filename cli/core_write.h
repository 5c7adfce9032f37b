/* SPDX-License-Identifier: MIT */
/* Writes a core file, shows the progress, and lets signals cancel it. */
#pragma once

#include "session.h"
#include <vmscope/dump.h>

/*
 * Writes the session's machine into the core file `path`. SIGINT, SIGTERM or SIGHUP cancels the
 * dump. The same signal again ends the process at once. Errors: those of vms_dump_start and
 * vms_dump_finish.
 */
bool core_write(struct session *session, const char *path, const struct vms_dump_options *options,
		struct vms_dump_result *ret, GError **error);
