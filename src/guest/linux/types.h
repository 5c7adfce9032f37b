/* SPDX-License-Identifier: MIT */
/* Types of the kernel and of its modules (types.h), by their BTF. */
#pragma once

#include "guest/linux/linux.h"

/* The types that were made so far; may be NULL. */
void vms_linux_types_free(struct vms_linux_types *types);
/* See vms_guest_types. */
struct vms_types *vms_linux_types(void *system, uint64_t va, GError **error);
