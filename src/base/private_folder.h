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

/*
 * The folder of this user for what lives until the next boot at most: /run/vmscope of root,
 * whatever its environment says, as all of root's processes have to find the same one;
 * $XDG_RUNTIME_DIR/vmscope or /run/user/UID/vmscope of others. Makes it if need be. Newly
 * allocated. NULL without an error: this system has no such place for this user. Errors: IO,
 * PERMISSION.
 */
char *vms_private_folder_runtime(GError **error);
/*
 * A folder of this user among the temporary files, where any user may have taken any name: one of
 * an earlier call that is still there, or a new one with a random name. Newly allocated. Errors:
 * IO.
 */
char *vms_private_folder_temporary(GError **error);
