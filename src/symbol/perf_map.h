/* SPDX-License-Identifier: MIT */
/*
 * Maps of code that programs make at run time (Node, Java, Python …): /tmp/perf-PID.map, whose
 * lines are "START SIZE NAME", in hexadecimal digits. See
 * tools/perf/Documentation/jit-interface.txt in Linux.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/symbol.h>

/* Largest part of a map that is read, from its end. */
#define VMS_PERF_MAP_LIMIT (UINT64_C(64) << 20) /* bytes */

/*
 * Makes a table of functions by their addresses. Code that moved or was replaced has later lines:
 * a line counts unless a later one overlaps it. Lines that make no sense, or have a NUL in them
 * because a part of the file is missing, are left out. `module` is the table's name. Of more than
 * half a million functions, those of the last lines are taken.
 */
struct vms_symbol_table *vms_perf_map_parse(struct vms_bytes text, const char *module);
