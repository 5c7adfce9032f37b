/* SPDX-License-Identifier: MIT */
/* Build ids of ELF files, which say that two files were linked as one. */
#pragma once

/* Reads the build id of an ELF file, in hexadecimal. Newly allocated; NULL if it has none. */
char *vms_build_id_read(int fd);
