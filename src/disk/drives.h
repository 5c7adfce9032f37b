/* SPDX-License-Identifier: MIT */
/*
 * The disks of a machine, where they are files or block devices that its process has open. They are
 * read through the descriptors of the process, so it does not matter what lies at their paths now.
 * They are read only, and no lock of QEMU's is taken or looked at.
 *
 * What they hold is interpreted in a jail, if the budget names a program for it (disk_service.h).
 *
 * Threads: any thread may use it.
 */
#pragma once

#include "disk/disks.h"
#include <sys/types.h>
#include <vmscope/error.h>

struct vms_drives;

/*
 * Makes the drives of a process, which are looked for when they are first needed. They have a part
 * of `budget`, as long as they are used.
 */
struct vms_drives *vms_drives_new(pid_t pid, struct vms_budget *budget);
struct vms_drives *vms_drives_ref(struct vms_drives *drives);
void vms_drives_unref(struct vms_drives *drives);
/* True the first time that it is called. */
bool vms_drives_is_first_failure(struct vms_drives *drives);
/* Counts steps of work with what the disks hold. False: there are no more. Waits as reading does.
 */
bool vms_drives_charge(struct vms_drives *drives, uint64_t steps);
/*
 * Opens a file of the guest: see vms_disks_open_file, which also tells of the errors, besides those
 * of vms_jail_call. The source references the drives. What it reads is a part of the disk that was
 * fetched before; to fetch it may wait for other threads and for the disk.
 */
bool vms_drives_open_file(struct vms_drives *drives, const struct vms_drive_file *file,
			  unsigned copy, struct vms_file_source *ret, GError **error);
