/* SPDX-License-Identifier: MIT */
/* Functions that several formats use. */
#pragma once

#include <vmscope/export.h>

/* Appends a frame's name: "vfs_read", or by address "vfs_read+0x9b", or the bare address. */
void vms_export_name(GString *out, const struct vms_label *label);
/* Returns the name of a tree, "vCPU 0" or "all vCPUs", newly allocated. */
char *vms_export_tree_name(const struct vms_profile_tree *tree);

/*
 * Returns the node after `node` in the order of printing, which has a parent before its children,
 * or VMS_NO_NODE after the last one. Skips the children of `node` if `skip_children`. Updates
 * `*depth`, the node's depth.
 */
uint32_t vms_export_next(const struct vms_profile_tree *tree, uint32_t node, bool skip_children,
			 unsigned *depth);
