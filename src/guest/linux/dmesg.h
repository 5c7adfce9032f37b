/* SPDX-License-Identifier: MIT */
/* The kernel's log. */
#pragma once

#include "guest/linux/linux.h"

/* See vms_guest_dmesg. */
bool vms_linux_dmesg(void *system,
		     void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		     void *data, GError **error);
