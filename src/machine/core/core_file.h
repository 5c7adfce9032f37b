/* SPDX-License-Identifier: MIT */
/*
 * Reads the bytes of a core file at any offset. A flattened file (makedumpfile's format for pipes,
 * which QEMU also writes for kdump) is read as the file that it encodes.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/error.h>

typedef struct vms_core_file vms_core_file;

/* Opens a file. Errors: NOT_FOUND, PERMISSION, IO, MALFORMED (an inconsistent flattened file). */
struct vms_core_file *vms_core_file_open(const char *path, GError **error);
void vms_core_file_close(struct vms_core_file *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_core_file, vms_core_file_close)

const char *vms_core_file_path(const struct vms_core_file *file);
/* Returns one line about what is missing in a flattened file, or NULL. */
const char *vms_core_file_damage(const struct vms_core_file *file);
/* Returns the size in bytes; for a flattened file, that of the file that it encodes. */
uint64_t vms_core_file_size(const struct vms_core_file *file);
uint64_t vms_core_file_disk_size(const struct vms_core_file *file);
/* False if any byte is beyond the end or cannot be read. Any number of threads may read at once. */
bool vms_core_file_read(const struct vms_core_file *file, uint64_t offset, void *buf, size_t size);
/*
 * Reads bytes into new memory. `what` names them in errors. Errors: MALFORMED (beyond the end, or
 * more than `limit` bytes), IO.
 */
uint8_t *vms_core_file_load(const struct vms_core_file *file, uint64_t offset, uint64_t size,
			    uint64_t limit, const char *what, GError **error);
/*
 * Like vms_machine_next_data, for the bytes [offset, end) of the file: skips holes. Takes no lock.
 */
void vms_core_file_next_data(const struct vms_core_file *file, uint64_t offset, uint64_t end,
			     uint64_t *begin, uint64_t *stop);
