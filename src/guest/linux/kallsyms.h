/* SPDX-License-Identifier: MIT */
/* kallsyms: the symbols that a kernel carries in its own image (kernel/kallsyms.c). */
#pragma once

#include "base/bytes.h"
#include <vmscope/symbol.h>

/*
 * Finds and decodes kallsyms in `image`, the bytes of a kernel that is mapped at `image_va`. It
 * recognises them by their shape alone. The symbols are in the kernel's own order. The time is
 * limited whatever the image holds. Errors: NOT_FOUND.
 */
struct vms_symbol_table *vms_kallsyms_parse(struct vms_bytes image, uint64_t image_va,
					    GError **error);
