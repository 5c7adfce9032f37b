/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a core file, read at random: those of the file, or those that a flattened file
 * (makedumpfile's format for pipes, which QEMU writes for kdump, too) stands for.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/error.h>

typedef struct vms_core_file vms_core_file;

/* Errors: NOT_FOUND, PERMISSION, IO, MALFORMED (a flattened file that contradicts itself). */
struct vms_core_file *vms_core_file_open(const char *path, GError **error);
void vms_core_file_close(struct vms_core_file *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_core_file, vms_core_file_close)

const char *vms_core_file_path(const struct vms_core_file *file);
/* What is missing of a flattened file, one line; NULL: nothing. */
const char *vms_core_file_damage(const struct vms_core_file *file);
bool vms_core_file_is_flattened(const struct vms_core_file *file);
/* Bytes; of a flattened file, of what it stands for. */
uint64_t vms_core_file_size(const struct vms_core_file *file);
uint64_t vms_core_file_disk_size(const struct vms_core_file *file);
/* False when any byte lies beyond the end or cannot be read. For any number of threads at once. */
bool vms_core_file_read(const struct vms_core_file *file, uint64_t offset, void *buf, size_t size);
/* The same, newly allocated; NULL with an error, for sizes above `limit` too: MALFORMED. */
uint8_t *vms_core_file_load(const struct vms_core_file *file, uint64_t offset, uint64_t size,
			    uint64_t limit, const char *what, GError **error);
/*
 * As vms_machine_next_data, for the bytes [offset, end) of the file: skips its holes. Without a
 * lock.
 */
void vms_core_file_next_data(const struct vms_core_file *file, uint64_t offset, uint64_t end,
			     uint64_t *begin, uint64_t *stop);
