/* SPDX-License-Identifier: MIT */
/* The kernel's timekeeper, where no symbol tells it. */
#pragma once

#include "guest/linux/kernel_image.h"
#include "guest/linux/linux.h"

/* Recognises it in the image; false when it is not found. */
bool vms_linux_find_timekeeper(const struct vms_linux *guest, const struct vms_kernel_image *image,
			       uint64_t *ret);
