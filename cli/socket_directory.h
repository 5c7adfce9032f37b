/* SPDX-License-Identifier: MIT */
/* Where sockets of QEMUs lie that vmscope starts: "PID.qmp0" …, "PID.agent". */
#pragma once

#include <glib.h>

/*
 * Its path: of a directory of ours with mode 0700, made if it is not there. Sockets of processes
 * that have ended are removed from it. Newly allocated. Errors: IO, PERMISSION.
 */
char *socket_directory_open(GError **error);
/* The path of this process's socket of that name, where none lies; newly allocated. */
char *socket_directory_path(const char *directory, const char *name);
