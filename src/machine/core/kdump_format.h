/* SPDX-License-Identifier: MIT */
/*
 * The kdump-compressed format (makedumpfile's IMPLEMENTATION and diskdump_mod.h describe it): block
 * 0 the header, block 1 the sub-header, notes and VMCOREINFO behind it; then two bitmaps with a
 * bit per page frame (first: there is memory; second: the page is in the file), one descriptor per
 * page in the file, and the pages. Offsets within the 64-bit layout; integers of the machine's
 * byte order.
 */
#pragma once
