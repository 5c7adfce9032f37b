/* SPDX-License-Identifier: MIT */
/* Linux, as one of the systems that a guest can run. */
#pragma once

#include "guest/operations.h"

/* Its `system` is a struct vms_linux. */
extern const struct vms_guest_ops vms_linux_ops;
