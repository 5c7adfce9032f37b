/* SPDX-License-Identifier: MIT */
/* Variables that a kernel's symbols leave out. */
#pragma once

#include "guest/linux/kernel_image.h"
#include "guest/linux/linux.h"

/* Finds them in the kernel's image. */
void vms_linux_find_hidden(struct vms_linux *guest, const struct vms_kernel_image *image);
/* With BTF, finds more of them. */
void vms_linux_find_hidden_by_types(struct vms_linux *guest, const struct vms_kernel_image *image);
