/* SPDX-License-Identifier: MIT */
/* Names of Linux's error numbers, those that only a kernel uses included. */
#pragma once

#include <stdint.h>

/* Returns "ENOENT" for 2, or NULL. */
const char *vms_errno_name(uint64_t number);
/* Returns 2 for "ENOENT", or 0. */
unsigned vms_errno_number(const char *name);
