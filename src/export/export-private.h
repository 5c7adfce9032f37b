/* SPDX-License-Identifier: MIT */
/* What the formats share. */
#pragma once

#include <vmscope/export.h>

/* A frame's name in one piece: "vfs_read", by address "vfs_read+0x9b", or the bare address. */
void vms_export_name(GString *out, const struct vms_label *label);
/* What a tree of one vCPU is headed by: "vCPU 0"; or "all vCPUs". */
char *vms_export_tree_name(const struct vms_profile_tree *tree);

/*
 * The node after `node` in the order of printing, a parent before its children; those are passed
 * over if `skip_children`. `*depth` follows.
 */
uint32_t vms_export_next(const struct vms_profile_tree *tree, uint32_t node, bool skip_children,
			 unsigned *depth);
