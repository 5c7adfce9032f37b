/* SPDX-License-Identifier: MIT */
/*
 * What a machine's disks hold: images, partitions, logical volumes, file systems. All of it is
 * interpreted here, on budgets, from bytes that a source gives; nothing is opened by a name.
 *
 * Threads: only one at a time.
 */
#pragma once

#include "base/file_source.h"
#include "disk/ext4.h"

struct vms_disks;

/* A file that has a disk. */
struct vms_disk_image {
	struct vms_file_source file;
	char *path; /* for messages */
	int base;   /* index of the image that this one names as the one it is based on; -1: none */
};

/* A file of the guest, as its kernel identifies it. */
struct vms_drive_file {
	uint8_t uuid[VMS_EXT4_UUID_SIZE]; /* of the file system */
	uint64_t inode, size;
	bool has_change;   /* the next is known */
	uint32_t change_s; /* when the inode was changed last, in seconds since 1970, modulo 2^32 */
};

/*
 * Looks for the file systems on disks. Takes what the images own. Each disk has a part of `budget`,
 * so one that is used up costs nothing of the others. An image that others are based on is no disk
 * by itself: alone, it is one of another time. References the budget.
 */
struct vms_disks *vms_disks_scan(const struct vms_disk_image *images, size_t n,
				 struct vms_budget *budget);
void vms_disks_free(struct vms_disks *disks);
/*
 * Opens a file on the file system number `copy` of those that may have it: there are several with
 * one UUID where a disk was copied. The source needs the disks. Errors: NOT_FOUND (the text says
 * which disks there are and why they cannot be read, or that the file is not there), UNSUPPORTED,
 * MALFORMED. An error for copy 0 tells most.
 */
bool vms_disks_open_file(struct vms_disks *disks, const struct vms_drive_file *file, unsigned copy,
			 struct vms_file_source *ret, GError **error);
