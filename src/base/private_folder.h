/* SPDX-License-Identifier: MIT */
/* Folders for what only this user may see: sockets of machines, records of holds. */
#pragma once

#include <glib.h>
#include <stdbool.h>

/*
 * Makes a folder with mode 0700, and the folders above it, unless it is there. Checks that it is a
 * folder, not a symbolic link, that it is this user's, and that nobody else can enter it. Errors:
 * IO, PERMISSION.
 */
bool vms_private_folder_make(const char *path, GError **error);
