/* SPDX-License-Identifier: MIT */
/* Symbols: tables of named addresses, and the files that they come from. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

/* ---- one table: the symbols of one module ----------------------------- */

typedef struct vms_symbol_table vms_symbol_table;

struct vms_symbol {
	const char *name; /* owned by the table */
	uint64_t va;
	uint64_t size; /* bytes; up to the next symbol if it has no size of its own */
	char type;     /* as `nm` shows it: t, T, d … */
};

/* Makes an empty table. `module` is copied: "vmlinux", "virtio_blk", or a file's name. */
struct vms_symbol_table *vms_symbol_table_new(const char *module);
struct vms_symbol_table *vms_symbol_table_ref(struct vms_symbol_table *table);
void vms_symbol_table_unref(struct vms_symbol_table *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_symbol_table, vms_symbol_table_unref)

const char *vms_symbol_table_module(const struct vms_symbol_table *table);
/* Adds a symbol. A `size` of 0 means up to the next symbol. The name is copied. */
void vms_symbol_table_add(struct vms_symbol_table *table, const char *name, uint64_t va,
			  uint64_t size, char type);
/*
 * Notes that a part of the module begins or ends at `va`. Symbols without a size that begin below
 * `va` do not reach beyond it.
 */
void vms_symbol_table_add_bound(struct vms_symbol_table *table, uint64_t va);
/*
 * Sorts the table by address. Call it once after the last add. Symbols of one address stay in the
 * order in which they were added, and a look-up by address gives the first of them. `end` bounds
 * the last symbol.
 */
void vms_symbol_table_finish(struct vms_symbol_table *table, uint64_t end);

size_t vms_symbol_table_count(const struct vms_symbol_table *table);
/* Returns about how many bytes of memory the table takes. */
size_t vms_symbol_table_bytes(const struct vms_symbol_table *table);
struct vms_symbol vms_symbol_table_get(const struct vms_symbol_table *table, size_t index);
/* Finds the symbol that `va` lies in. */
bool vms_symbol_table_find(const struct vms_symbol_table *table, uint64_t va,
			   struct vms_symbol *ret);
/* Finds the first symbol called `name`, in the table's order. */
bool vms_symbol_table_lookup(const struct vms_symbol_table *table, const char *name,
			     struct vms_symbol *ret);
/* Finds the next symbol called `name`. `*cursor` is 0 at first; keep it between the calls. */
bool vms_symbol_table_next(const struct vms_symbol_table *table, const char *name, size_t *cursor,
			   struct vms_symbol *ret);

/* ---- symbol files ----------------------------------------------------- */

typedef struct vms_symbol_file vms_symbol_file;

/*
 * Opens an ELF file with symbols and perhaps DWARF lines. Its bias, which is added to its addresses
 * to get the guest's, is 0 at first. Errors: IO, MALFORMED (not ELF), NOT_FOUND (it has no
 * symbols).
 */
struct vms_symbol_file *vms_symbol_file_open(const char *path, GError **error);
/*
 * Opens the file `path` as if `root` were the root directory. No symbolic link leads out of `root`.
 * Errors: as above.
 */
struct vms_symbol_file *vms_symbol_file_open_below(const char *root, const char *path,
						   GError **error);
void vms_symbol_file_close(struct vms_symbol_file *file);
/* Returns the path that the file was opened by. The file owns it. */
const char *vms_symbol_file_path(const struct vms_symbol_file *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_symbol_file, vms_symbol_file_close)

void vms_symbol_file_set_bias(struct vms_symbol_file *file, uint64_t bias);
uint64_t vms_symbol_file_bias(const struct vms_symbol_file *file);
/* Returns where the first loaded segment begins, without bias. */
uint64_t vms_symbol_file_base(const struct vms_symbol_file *file);
/* Finds the address of a symbol, without bias. */
bool vms_symbol_file_lookup(const struct vms_symbol_file *file, const char *name, uint64_t *ret);
/* Returns the file's symbols with the bias added, as a new reference. */
struct vms_symbol_table *vms_symbol_file_table(struct vms_symbol_file *file);
/*
 * Returns the file's functions by their offsets in the file, because a process maps them by offset.
 * It is a new table, which may be empty.
 */
struct vms_symbol_table *vms_symbol_file_offsets(const struct vms_symbol_file *file);
/* Finds the source position of an address with the bias. The file owns `*source`. */
bool vms_symbol_file_line(struct vms_symbol_file *file, uint64_t va, const char **source,
			  unsigned *line);

VMS_END_DECLS
