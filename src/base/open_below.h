/* SPDX-License-Identifier: MIT */
/* Opens files of a folder whose paths come from a guest. */
#pragma once

/*
 * Opens the regular file `path` to read it, as if `root` were the root directory: no symbolic link
 * leads out of it. Returns -1 and sets errno if that is not possible; EINVAL if it is no regular
 * file, because a guest may name a device or a pipe.
 */
int vms_open_below(const char *root, const char *path);
