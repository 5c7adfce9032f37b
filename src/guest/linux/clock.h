/* SPDX-License-Identifier: MIT */
/* What the kernel counts time by. */
#pragma once

#include "guest/linux/linux.h"

/* See vms_guest_clocks. */
GArray *vms_linux_clocks(void *system, GError **error);
