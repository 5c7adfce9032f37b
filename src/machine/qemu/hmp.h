/* SPDX-License-Identifier: MIT */
/*
 * Text of QEMU's human monitor. It changes between versions, so it is parsed
 * strictly, and callers do without where that fails.
 */
#pragma once

#include <vmscope/machine.h>

#define VMS_HMP_RANGES_MAX 4096

/*
 * The guest-physical memory map from `info mtree -f` (the flat view of the
 * address space "memory"), as sorted struct vms_range. Names live in `names`.
 * NULL with MALFORMED when the text is not understood.
 */
GArray *vms_hmp_parse_mtree(const char *text, GStringChunk *names, GError **error);

/* The address in QEMU's own address space from `gpa2hva PA`. */
bool vms_hmp_parse_gpa2hva(const char *text, uint64_t pa, uint64_t *ret);
