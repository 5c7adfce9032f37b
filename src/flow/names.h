/* SPDX-License-Identifier: MIT */
/* Names in what a user writes of probes: registers and symbols. */
#pragma once

#include <vmscope/guest.h>

/* Finds the address of a symbol. False: there is none, or several with different addresses. */
bool vms_flow_find_symbol(struct vms_guest *guest, const char *name, uint64_t *va);
/*
 * Returns the name of a place in code, of the kernel or of the programs of `process` (NULL: none),
 * as "vfs_read+0x8", or NULL. Newly allocated.
 */
char *vms_flow_name_place(struct vms_guest *guest, const struct vms_process *process, uint64_t va);
/* Appends operations to an array of struct vms_op that leave a register, or a part of it, on the
 * stack. */
void vms_flow_push_register(const struct vms_arch *arch, const struct vms_reg_part *part,
			    GArray *ops);
/*
 * Returns what to append to a message about an unknown name: the nearest registers, symbols and
 * arguments of a function, or "". Guest and function may be NULL. Newly allocated.
 */
char *vms_flow_nearest(const struct vms_arch *arch, struct vms_guest *guest,
		       const struct vms_type *function, const char *name);
