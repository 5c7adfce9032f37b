/* SPDX-License-Identifier: MIT */
/* Functions for several formats. */
#pragma once

#include "export/sink.h"
#include <vmscope/export.h>

/* Appends a frame's name: "vfs_read", or by address "vfs_read+0x9b", or the bare address. */
void vms_export_append_name(GString *out, const struct vms_label *label);
/*
 * Returns the file of a label's code, named like in perf: a path, "[ext4]" for a module,
 * "[kernel.kallsyms]", "[unknown]"; or "[vcpu]" for a label that is not code. Newly allocated.
 */
char *vms_export_file_name(const struct vms_label *label);
/* Returns the name of a thread, "md5sum (123/124)" with pid and tid, newly allocated. */
char *vms_export_thread_name(const struct vms_profile_thread *thread);
/* Returns the number of labels in a profile's trees. Their indices count from 0. */
size_t vms_export_count_labels(const struct vms_profile *profile);
/* Returns the name of a tree, "vCPU 0" or "all vCPUs", newly allocated. */
char *vms_export_tree_name(const struct vms_profile_tree *tree);

/*
 * Returns the node after `node` in the order of output, which has a parent before its children,
 * or VMS_NO_NODE after the last one. Skips the children of `node` if `skip_children`. Updates
 * `*depth`, the node's depth.
 */
uint32_t vms_export_next(const struct vms_profile_tree *tree, uint32_t node, bool skip_children,
			 unsigned *depth);
