/* SPDX-License-Identifier: MIT */
/* Finds which of the agent's two objects a QEMU can load as a plugin. */
#pragma once

#include <vmscope/error.h>

/*
 * Finds the object that the QEMU of a command can load. Returns its path, newly allocated. This
 * starts QEMU for a moment with the object as its only option. The objects are in the folder
 * VMSCOPE_AGENT_DIR; if that is not set, in `folder`; if that is NULL, where they are installed.
 * Errors: UNSUPPORTED (too old, too new, built without plugins), NOT_FOUND (the objects), IO (the
 * command cannot be started), PROTOCOL, TIMEOUT (it does not behave like QEMU).
 */
char *vms_agent_object_find(const char *const *command, const char *folder, GError **error);
