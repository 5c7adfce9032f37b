/* SPDX-License-Identifier: MIT */
/* Symbol tables as plain bytes, as a jail gives them back. */
#pragma once

#include "base/bytes.h"
#include <vmscope/symbol.h>

/* Appends a table that is finished. */
void vms_symbols_pack(const struct vms_symbol_table *table, GByteArray *out);
/*
 * Makes a table of bytes that are not trusted. A symbol costs a few steps of their budget. NULL if
 * they are malformed, or the budget is used up.
 */
struct vms_symbol_table *vms_symbols_unpack(struct vms_bytes bytes, const char *module);
