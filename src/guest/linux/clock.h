/* SPDX-License-Identifier: MIT */
/* The kernel's clocks: what it counts time by, and what wakes its CPUs. */
#pragma once

#include "guest/linux/linux.h"

/* See vms_guest_clocks. */
GArray *vms_linux_clocks(void *system, GError **error);
