/* SPDX-License-Identifier: MIT */
/* The per-CPU bases of vCPUs whose engine does not tell them while they run a user program. */
#pragma once

#include "guest/linux/linux.h"

/*
 * Finds out which CPU each vCPU of a machine of x86-64 is, and adds its per-CPU base as an assumed
 * KERNEL_GS_BASE, unless the engine gives that register. Whoever uses it checks it. Holds all vCPUs
 * for a moment.
 */
void vms_linux_learn_bases(struct vms_linux *guest);
