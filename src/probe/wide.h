/* SPDX-License-Identifier: MIT */
/*
 * The numbers of wide registers in programs: those of more than 64 bits. A vector register has one
 * number for all its widths: xmm0 is the first 16 bytes of ymm0, and ymm0 the first 32 of zmm0. The
 * numbers are also those of the agent, so they never change.
 */
#pragma once

#define VMS_WIDE_MAX	   64u /* numbers are below this */
#define VMS_WIDE_BYTES_MAX 64u

/* Vector registers are 0 to 31. */
#define VMS_WIDE_VECTORS 32u
/* x86-64: */
#define VMS_WIDE_ST	     32u /* st0 to st7: numbers of 80 bits */
#define VMS_WIDE_GDTR	     40u /* as SGDT and SIDT store them: a limit of 2 bytes, a base of 8 */
#define VMS_WIDE_IDTR	     41u
#define VMS_WIDE_80_BITS     10u /* bytes of each of these */
#define VMS_WIDE_LIMIT_BYTES 2u	 /* the base follows */
