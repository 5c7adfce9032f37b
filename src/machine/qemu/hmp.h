/* SPDX-License-Identifier: MIT */
/*
 * Parsers for text of QEMU's human monitor. The text changes between versions. So it is parsed
 * strictly, and callers can do without it.
 */
#pragma once

#include "probe/wide_registers.h"
#include <vmscope/machine.h>

#define VMS_HMP_RANGES_MAX 4096

/*
 * Parses the guest-physical memory map of `info mtree -f` (the flat view of the address space
 * "memory"). Returns struct vms_range, sorted; their names live in `names`. Errors: MALFORMED (the
 * text is not understood).
 */
GArray *vms_hmp_parse_mtree(const char *text, GStringChunk *names, GError **error);

/* Parses the answer to `gpa2hva PA`: an address in QEMU's own address space. */
bool vms_hmp_parse_gpa2hva(const char *text, uint64_t pa, uint64_t *ret);

/*
 * Adds the segments, descriptor tables and debug registers of an x86-64 QEMU's `info registers` to
 * `regs` (hmp_registers.c). False, with `regs` unchanged, if the text is not understood.
 */
bool vms_hmp_parse_x86_64_registers(const char *text, struct vms_regs *regs);
/* Adds the general and control registers, and the bases of FS and GS, from the same text. */
bool vms_hmp_parse_x86_64_general(const char *text, struct vms_regs *regs);
/*
 * Gets the vector registers, in the width that the vCPU uses, the registers of x87 from the top of
 * its stack on, and the descriptor tables, from the same text. False if it is not understood.
 */
bool vms_hmp_parse_x86_64_wide(const char *text, struct vms_wide_regs *ret);
