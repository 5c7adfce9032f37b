/* SPDX-License-Identifier: MIT */
/*
 * Logical volumes of LVM2, of linear segments, as installers make them. A volume may lie on several
 * disks. First the parts of all disks are added that may be physical volumes; the text that one of
 * them has then tells what the volumes of its group consist of.
 */
#pragma once

#include "base/file_source.h"
#include <glib.h>

struct vms_lvm;

struct vms_lvm_volume {
	char *name;		       /* GROUP/VOLUME */
	struct vms_file_source source; /* its bytes; they need the disks. Without `read`: none */
	char *obstacle;		       /* why it cannot be read; NULL if it can */
};

struct vms_lvm *vms_lvm_new(void);
void vms_lvm_free(struct vms_lvm *lvm);
/* Adds a part of a disk, which must outlive `lvm`. False if it is no physical volume. */
bool vms_lvm_add(struct vms_lvm *lvm, const struct vms_file_source *disk, uint64_t offset,
		 uint64_t size);
/* Returns the logical volumes, a new array of struct vms_lvm_volume, which owns them. */
GPtrArray *vms_lvm_list(const struct vms_lvm *lvm);
