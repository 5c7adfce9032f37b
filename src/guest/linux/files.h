/* SPDX-License-Identifier: MIT */
/*
 * Files that the guest's processes map. While a vCPU is held, a mapping is only noted. Later, when
 * the guest runs, the file is opened, and all processes that map it share one struct vms_binary:
 * files are told apart by their inode, and those with the same build id count as one.
 *
 * Threads: any thread may use it.
 */
#pragma once

#include "guest/linux/page_cache.h"
#include "symbol/binary.h"

struct vms_linux_files;

/*
 * `cache` may be NULL: then no file is ever read. Keeps a reference to it. `symbolizer`, which has
 * the debug files, must outlive the result. Each file, and the guest's disks, are on a part of
 * `budget`, which is referenced, and may be NULL.
 */
struct vms_linux_files *vms_linux_files_new(struct vms_page_cache *cache,
					    const struct vms_symbolizer *symbolizer,
					    struct vms_budget *budget);
void vms_linux_files_free(struct vms_linux_files *files);

/*
 * Notes that the address space `space` maps a file. Reads the place of its contents by `memory`,
 * because the file may be closed when the guest runs again. `file` is the address of the struct
 * file that `mapping` is of.
 */
void vms_linux_files_note(struct vms_linux_files *files, struct vms_memory *memory, uint32_t space,
			  const struct vms_mapping *mapping, uint64_t file);
/*
 * Notes that the address space `space` maps the vDSO. Copies it the first time: all 64-bit
 * processes of a guest have the same one.
 */
void vms_linux_files_note_vdso(struct vms_linux_files *files, struct vms_memory *memory,
			       uint32_t space, const struct vms_mapping *mapping);
/*
 * Opens the files that were noted of an address space, and tells the symbolizer of them, without
 * their functions. It takes a fraction of a millisecond for each, unless it `waits` for what is not
 * in memory of them.
 */
void vms_linux_files_open_noted(struct vms_linux_files *files, struct vms_symbolizer *symbolizer,
				uint32_t space, bool waits);
/*
 * Opens the files that were noted, reads their functions, and tells the symbolizer of them. Not for
 * a held guest. It waits for the guest's disks, and brings from them what was not in memory for
 * others who did not wait; these are never held up by it.
 */
void vms_linux_files_read(struct vms_linux_files *files, struct vms_symbolizer *symbolizer);
/*
 * Opens a file, or returns the one that was opened before, as a new reference. Waits for its bytes.
 * NULL if it is gone.
 * Fills `*file` up. `path` is for messages.
 */
struct vms_binary *vms_linux_files_open(struct vms_linux_files *files, const char *path,
					struct vms_cached_file *file);
