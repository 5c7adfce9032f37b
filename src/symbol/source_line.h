/* SPDX-License-Identifier: MIT */
/* Where the code of a source line is, by the symbol files that were added. */
#pragma once

#include <vmscope/symbolizer.h>

/*
 * Returns the addresses at which the code of a source line begins: uint64_t, sorted. A line has
 * several if its code was split or inlined. `source` is a file's path, or its last parts, as
 * "tcp.c" or "ipv4/tcp.c". Lines are counted from 1. Errors: NOT_FOUND (no file with lines, the
 * source or code of the line is not in any; the text tells the nearest), INVALID_ARGUMENT (several
 * sources are called so; the text tells them).
 */
GArray *vms_symbolizer_line_addresses(struct vms_symbolizer *symbolizer, const char *source,
				      unsigned line, GError **error);
