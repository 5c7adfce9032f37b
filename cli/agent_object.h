/* SPDX-License-Identifier: MIT */
/* Which of the agent's two objects a QEMU takes as its plugin. */
#pragma once

#include <vmscope/error.h>

/*
 * The path of the object that the QEMU of a command takes, newly allocated. QEMU itself is asked:
 * it is started for a moment, with nothing but the object. Errors: UNSUPPORTED (too old, too new,
 * built without plugins, no TCG), NOT_FOUND (the objects), IO (the command cannot be started),
 * PROTOCOL (it does not answer as QEMU does).
 */
char *agent_object_find(char *const *command, GError **error);
