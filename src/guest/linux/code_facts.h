/* SPDX-License-Identifier: MIT */
/* What a Linux kernel tells of its own code. */
#pragma once

#include "guest/code_facts.h"
#include "guest/linux/linux.h"

/* See vms_guest_code_role. */
enum vms_code_role vms_linux_code_role(const char *symbol);
/* See vms_guest_code_is_freed. */
bool vms_linux_code_is_freed(const void *system, struct vms_memory *memory, uint64_t va);
/* See struct vms_guest_ops. */
bool vms_linux_special_insns(void *system, struct vms_memory *memory, uint64_t va, uint64_t size,
			     GArray *to);
