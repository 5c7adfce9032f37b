/* SPDX-License-Identifier: MIT */
/* Partition tables of a disk: GPT and MBR, with logical partitions. */
#pragma once

#include "base/file_source.h"
#include <glib.h>

struct vms_partition {
	uint64_t offset, size; /* bytes */
};

/*
 * Returns the parts of a disk that may hold a file system, a new array of struct vms_partition: the
 * whole disk first, then its partitions. Those that lie outside the disk are left out.
 */
GArray *vms_partitions_list(const struct vms_file_source *disk);
