/* SPDX-License-Identifier: MIT */
/*
 * Reads files of an ext2, ext3 or ext4 file system by their inodes' numbers, while a guest has it
 * mounted and writes to it. So what is read may be torn, or older than what the guest has in
 * memory: the caller compares.
 *
 * An own reader, not libext2fs: a number leads to a file without a walk through directories, which
 * takes four structures; it allocates nothing but a list of extents, and writes nothing by design.
 */
#pragma once

#include "base/file_source.h"
#include <vmscope/error.h>

struct vms_ext4;

#define VMS_EXT4_UUID_SIZE 16

/*
 * Opens the file system of `size` bytes at `offset` of a disk, which must outlive it. Errors:
 * NOT_FOUND (there is none), UNSUPPORTED (a feature that is not understood), MALFORMED.
 */
struct vms_ext4 *vms_ext4_open(const struct vms_file_source *disk, uint64_t offset, uint64_t size,
			       GError **error);
void vms_ext4_free(struct vms_ext4 *fs);
const uint8_t *vms_ext4_uuid(const struct vms_ext4 *fs);
/*
 * Makes a source of a regular file, which needs the file system as long as it lives. Errors:
 * NOT_FOUND (no such inode, or no regular file), UNSUPPORTED (it is encrypted or compressed),
 * MALFORMED, UNREADABLE.
 */
bool vms_ext4_open_file(struct vms_ext4 *fs, uint64_t number, struct vms_file_source *ret,
			GError **error);
