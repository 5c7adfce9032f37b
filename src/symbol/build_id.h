/* SPDX-License-Identifier: MIT */
/* Build ids of ELF files, which say that two files were linked as one. */
#pragma once

#include <stdint.h>

/* Reads the build id of an ELF file, in hexadecimal. Newly allocated; NULL if it has none. */
char *vms_build_id_read(int fd);
/*
 * Returns a number for a file without a build id, as those of programs in Go are. It changes when
 * the file is written or replaced, and is of this host only. Never 0, except if it cannot be known.
 */
uint64_t vms_file_stamp(int fd);
