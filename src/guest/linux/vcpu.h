/* SPDX-License-Identifier: MIT */
/* vCPUs of core files, which may lack registers. */
#pragma once

#include "guest/linux/linux.h"

/* Adds control registers that the kernel's memory tells to vCPUs that lack them. */
void vms_linux_complete_vcpus(struct vms_linux *guest);
