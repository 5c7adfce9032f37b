/* SPDX-License-Identifier: MIT */
/* The functions of a binary, from whatever tables of symbols of it can be read. */
#pragma once

#include "symbol/debug_files.h"
#include <vmscope/symbol.h>

/*
 * Reads the functions of a file by their offsets in it, because a process maps it by offset: those
 * of .symtab, or else of `separate`, which may be NULL, or else those that Fedora keeps compressed
 * in .gnu_debugdata, those of the runtime of Go, and those for dynamic linking; and the entries of
 * the PLT by what they call, as "malloc@plt". Returns a new table, which may be empty. `module` is
 * the table's name.
 */
struct vms_symbol_table *vms_read_functions(const struct vms_file_source *source,
					    const struct vms_elf_image *elf,
					    const struct vms_separate_symbols *separate,
					    const char *module);
/* True if the file has a table of all its symbols, and nothing of it is missing. */
bool vms_has_all_functions(const struct vms_file_source *source, const struct vms_elf_image *elf);
