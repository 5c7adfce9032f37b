/* SPDX-License-Identifier: MIT */
/*
 * What debug files have, for binaries. Any thread may call these functions; they read files.
 * `budget`, which may be NULL, pays for finding a file, and for reading what was found.
 */
#pragma once

#include "symbol/elf_image.h"
#include <vmscope/debug_files.h>

/* The symbols of a program, in a file of their own. */
struct vms_separate_symbols {
	struct vms_file_source source;
	struct vms_elf_image elf;
};
void vms_separate_symbols_clear(struct vms_separate_symbols *symbols);

enum vms_debug_answer {
	VMS_DEBUG_MISSING,
	VMS_DEBUG_PENDING, /* a server was asked: ask again later */
	VMS_DEBUG_FOUND,
};

/* Finds the file with all symbols of the program that the guest has at `path`. */
enum vms_debug_answer vms_debug_files_find_symbols(struct vms_debug_files *files, const char *path,
						   const char *build_id, struct vms_budget *budget,
						   struct vms_separate_symbols *ret);
/* Finds a copy of the program itself, of the same size in bytes. */
bool vms_debug_files_find_copy(struct vms_debug_files *files, const char *path,
			       const char *build_id, uint64_t size, struct vms_budget *budget,
			       struct vms_file_source *ret);
/* Returns what opens files of this host for `files`, which owns it. */
struct vms_foreign_files *vms_debug_files_foreign(struct vms_debug_files *files);
/* True if a server still looks for symbols of a build id. */
bool vms_debug_files_is_pending(struct vms_debug_files *files, const char *build_id);
