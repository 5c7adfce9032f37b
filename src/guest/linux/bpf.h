/* SPDX-License-Identifier: MIT */
/* Code that the kernel's BPF compiler made. */
#pragma once

#include "guest/linux/linux.h"

/* Reads the list of BPF programs anew. */
void vms_linux_bpf_refresh(struct vms_linux *guest);
/* Adds every program to an array of struct vms_mapping. The caller holds the lock. */
void vms_linux_bpf_list_programs(const struct vms_linux *guest, GArray *mappings);
