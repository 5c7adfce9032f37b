/* SPDX-License-Identifier: MIT */
/* The options of reports that say what the nodes of their trees are. */
#pragma once

#include <vmscope/vmscope.h>

/*
 * Adds the flags of --by and --processes to `flags`. Each may be NULL, which means the default.
 * Errors: usage.
 */
bool profile_flags_parse(const char *by, const char *processes, unsigned *flags, GError **error);
