/* SPDX-License-Identifier: MIT */
/* Finds the kernel's timekeeper if no symbol tells it. */
#pragma once

#include "guest/linux/kernel_image.h"
#include "guest/linux/linux.h"

/* Recognises the timekeeper in the image, and gives its address. False if it is not found. */
bool vms_linux_find_timekeeper(const struct vms_linux *guest, const struct vms_kernel_image *image,
			       uint64_t *ret);
