/* SPDX-License-Identifier: MIT */
/*
 * The disks of a machine, where they are files or block devices that its process has open. They are
 * read through the descriptors of the process, so it does not matter what lies at their paths now.
 * They are read only, and no lock of QEMU's is taken or looked at.
 *
 * Threads: any thread may use it.
 */
#pragma once

#include "base/file_source.h"
#include <sys/types.h>
#include <vmscope/error.h>

struct vms_drives;

/* A file of the guest, as its kernel identifies it. */
struct vms_drive_file {
	uint8_t uuid[16]; /* of the file system */
	uint64_t inode, size;
};

/* Makes the drives of a process, which are looked for when they are first needed. */
struct vms_drives *vms_drives_new(pid_t pid);
struct vms_drives *vms_drives_ref(struct vms_drives *drives);
void vms_drives_unref(struct vms_drives *drives);
/* True the first time that it is called. */
bool vms_drives_is_first_failure(struct vms_drives *drives);
/*
 * Opens a file of the guest. The source references the drives. Errors: NOT_FOUND (no disk has that
 * file system; the text tells which disks there are and why they cannot be read, or that the file
 * is not there), UNSUPPORTED, MALFORMED.
 */
bool vms_drives_open_file(struct vms_drives *drives, const struct vms_drive_file *file,
			  struct vms_file_source *ret, GError **error);
