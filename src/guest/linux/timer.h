/* SPDX-License-Identifier: MIT */
/* High-resolution timers. */
#pragma once

#include "guest/linux/linux.h"

/* See vms_guest_timers. */
GArray *vms_linux_timers(void *system, GError **error);
