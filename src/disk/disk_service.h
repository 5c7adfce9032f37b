/* SPDX-License-Identifier: MIT */
/*
 * Reading disks as a service of a jail (base/jail_process.h), so that what guests have written is
 * interpreted without rights. drives.c is its only client; without a jail it calls the service in
 * its own process.
 *
 * First all images are added, then they are scanned, once; then files are opened and read.
 */
#pragma once

#include "base/jail_process.h"
#include "disk/disks.h"

/* Kinds of requests. */
enum {
	/*
	 * Adds images: one struct vms_disk_added per descriptor, each with its path and a NUL
	 * behind it. The answer has the names of the images that they are based on, each with a
	 * NUL behind it; empty: none.
	 */
	VMS_DISK_ADD = 0x200,
	/* Scans the disks: an int32_t per image, in the order of adding; see vms_disk_image.base.
	 */
	VMS_DISK_SCAN,
	VMS_DISK_OPEN,	/* a struct vms_disk_open; the answer is a struct vms_disk_opened */
	VMS_DISK_READ,	/* a struct vms_disk_read; the answer is the bytes */
	VMS_DISK_CLOSE, /* a uint32_t: the handle of a file */
};

/* Bytes of a read at most. */
#define VMS_DISK_READ_LIMIT (64u << 10)

struct vms_disk_added {
	uint64_t size;	    /* of the image, bytes */
	uint32_t path_size; /* with the NUL */
	uint32_t reserved;
};

struct vms_disk_open {
	struct vms_drive_file file;
	uint32_t copy;
};

struct vms_disk_opened {
	uint64_t size;
	uint32_t handle;
	uint32_t reserved;
};

struct vms_disk_read {
	uint64_t offset;
	uint32_t handle, size;
};

extern const struct vms_jail_service vms_disk_service;
