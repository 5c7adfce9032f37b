/* SPDX-License-Identifier: MIT */
/* Code that the kernel's BPF compiler made. */
#pragma once

#include "guest/linux/linux.h"

/* Reads the list of BPF programs anew. */
void vms_linux_bpf_refresh(struct vms_linux *guest);
