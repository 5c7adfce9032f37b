/* SPDX-License-Identifier: MIT */
/* The operations of Linux. */
#pragma once

#include "guest/operations.h"

/* Its `system` is a struct vms_linux. */
extern const struct vms_guest_ops vms_linux_ops;
