/* SPDX-License-Identifier: MIT */
/* Opens files of a folder whose paths come from a guest. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Opens the regular file `path` to read it, as if `root` were the root directory: no symbolic link
 * leads out of it. Returns -1 and sets errno if that is not possible; EINVAL if it is no regular
 * file, because a guest may name a device or a pipe.
 */
int vms_open_below(const char *root, const char *path);
/* Tells what `path` is, as if `root` were the root directory. Opens nothing. False if it fails. */
bool vms_stat_below(const char *root, const char *path, struct stat *ret);
