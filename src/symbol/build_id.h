/* SPDX-License-Identifier: MIT */
/* What says that two files are the same: build ids of ELF files, or a stamp. */
#pragma once

#include "base/file_source.h"
#include <sys/stat.h>

#define VMS_BUILD_ID_MAX 64 /* bytes; usually 20 */

/*
 * Finds the build id of a little-endian ELF file of 32 or 64 bits by its program headers, in
 * hexadecimal digits. False, and "", if it has none.
 */
bool vms_build_id_find(const struct vms_file_source *source, char ret[2 * VMS_BUILD_ID_MAX + 1]);
/*
 * Returns a number for a file without a build id, as those of programs in Go are. It changes when
 * the file is written or replaced, and is of this host only. Never 0.
 */
uint64_t vms_file_stamp(const struct stat *status);
