/* SPDX-License-Identifier: MIT */
/* The functions of a binary, from whatever tables of symbols of it can be read. */
#pragma once

#include "symbol/elf_image.h"
#include <vmscope/symbol.h>

/*
 * Reads the functions of a file by their offsets in it, because a process maps it by offset: those
 * of .symtab, those that Fedora keeps compressed in .gnu_debugdata, or else those for dynamic
 * linking; and the entries of the PLT by what they call, as "malloc@plt". Returns a new table,
 * which may be empty. `module` is the table's name.
 */
struct vms_symbol_table *vms_read_functions(const struct vms_file_source *source,
					    const struct vms_elf_image *elf, const char *module);
