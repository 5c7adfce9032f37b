/* SPDX-License-Identifier: MIT */
/* Which of the agent's two objects a QEMU takes as its plugin. */
#pragma once

#include <vmscope/error.h>

/*
 * Finds the object that the QEMU of a command takes; its path is newly allocated. QEMU itself is
 * asked: it is started for a moment, with nothing but the object. The objects lie in the folder
 * that VMSCOPE_AGENT_DIR names, else in `folder`, else (NULL) where they are installed. Errors:
 * UNSUPPORTED (too old, too new, built without plugins), NOT_FOUND (the objects), IO (the command
 * cannot be started), PROTOCOL, TIMEOUT (it does not answer as QEMU does).
 */
char *vms_agent_object_find(const char *const *command, const char *folder, GError **error);
