/* SPDX-License-Identifier: MIT */
/*
 * Text of QEMU's human monitor. It changes between versions, so it is parsed
 * strictly, and callers do without where that fails.
 */
#pragma once

#include <vmscope/arch.h>
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

/*
 * Adds what `info registers` of an x86-64 QEMU tells of segments, descriptor tables and debug
 * registers to `regs` (hmp_registers.c). False, with `regs` as it was, when the text is not
 * understood.
 */
bool vms_hmp_parse_x86_64_registers(const char *text, struct vms_regs *regs);
/* Adds the general and control registers, and the bases of FS and GS, of the same text. */
bool vms_hmp_parse_x86_64_general(const char *text, struct vms_regs *regs);
