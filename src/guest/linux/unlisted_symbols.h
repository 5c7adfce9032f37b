/* SPDX-License-Identifier: MIT */
/* Variables that are missing in a kernel's symbols. */
#pragma once

#include "guest/linux/kernel_image.h"
#include "guest/linux/linux.h"

/* Finds those that the kernel's image tells. Does nothing if the symbols have variables. */
void vms_linux_find_unlisted(struct vms_linux *guest, const struct vms_kernel_image *image);
/* Finds those that need BTF. */
void vms_linux_find_unlisted_by_types(struct vms_linux *guest,
				      const struct vms_kernel_image *image);
