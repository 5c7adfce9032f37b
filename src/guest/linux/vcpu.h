/* SPDX-License-Identifier: MIT */
/* vCPUs of core files that lack registers. */
#pragma once

#include "guest/linux/linux.h"

/* Gives vCPUs without control registers those that the kernel's memory tells. */
void vms_linux_complete_vcpus(struct vms_linux *guest);
