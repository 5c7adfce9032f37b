/* SPDX-License-Identifier: MIT */
/* Makes types (types.h) of BTF. */
#pragma once

#include "guest/linux/btf.h"
#include <vmscope/types.h>

/*
 * Makes types of a BTF blob. That of a module goes on after its kernel's: `base` are the types of
 * the kernel, and `base_btf` is the kernel's BTF. Both are NULL for a kernel's own.
 */
struct vms_types *vms_btf_make_types(const struct vms_btf *btf, struct vms_types *base,
				     const struct vms_btf *base_btf);
