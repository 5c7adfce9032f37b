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
	uint64_t size; /* bytes, up to the next symbol where nothing better is known */
	char type;     /* as `nm` shows it: t, T, d … */
};

/* `module` is copied: "vmlinux", "virtio_blk", a file's name. */
struct vms_symbol_table *vms_symbol_table_new(const char *module);
struct vms_symbol_table *vms_symbol_table_ref(struct vms_symbol_table *table);
void vms_symbol_table_unref(struct vms_symbol_table *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_symbol_table, vms_symbol_table_unref)

const char *vms_symbol_table_module(const struct vms_symbol_table *table);
/* size 0: up to the next symbol. The name is copied. */
void vms_symbol_table_add(struct vms_symbol_table *table, const char *name, uint64_t va,
			  uint64_t size, char type);
/*
 * Where a part of the module begins or ends: symbols without a size that begin below `va` do not
 * reach beyond it.
 */
void vms_symbol_table_add_bound(struct vms_symbol_table *table, uint64_t va);
/*
 * Call once after the last add: sorts by address. Symbols of one address stay in the order
 * they were added; a look-up by address gives the first of them. `end` bounds the last symbol.
 */
void vms_symbol_table_finish(struct vms_symbol_table *table, uint64_t end);

size_t vms_symbol_table_count(const struct vms_symbol_table *table);
/* Bytes of memory that the table takes, about. */
size_t vms_symbol_table_bytes(const struct vms_symbol_table *table);
struct vms_symbol vms_symbol_table_get(const struct vms_symbol_table *table, size_t index);
/* The symbol that `va` lies in. */
bool vms_symbol_table_find(const struct vms_symbol_table *table, uint64_t va,
			   struct vms_symbol *ret);
/* The first symbol called `name`, in the table's order. */
bool vms_symbol_table_lookup(const struct vms_symbol_table *table, const char *name,
			     struct vms_symbol *ret);
/* All symbols called `name`, one a call: `*cursor` is 0 at first, and kept in between. */
bool vms_symbol_table_next(const struct vms_symbol_table *table, const char *name, size_t *cursor,
			   struct vms_symbol *ret);

/* ---- symbol files ----------------------------------------------------- */

typedef struct vms_symbol_file vms_symbol_file;

/*
 * Opens an ELF file with symbols and perhaps DWARF lines. `bias` is what is added to the file's
 * addresses to get the guest's. Errors: IO, MALFORMED (not ELF), NOT_FOUND (no symbols in it).
 */
struct vms_symbol_file *vms_symbol_file_open(const char *path, GError **error);
/*
 * Opens the file that is called `path` where `root` is the root directory: no symbolic link leads
 * out of it. Errors: as above.
 */
struct vms_symbol_file *vms_symbol_file_open_below(const char *root, const char *path,
						   GError **error);
void vms_symbol_file_close(struct vms_symbol_file *file);
/* As it was opened by; owned by the file. */
const char *vms_symbol_file_path(const struct vms_symbol_file *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_symbol_file, vms_symbol_file_close)

void vms_symbol_file_set_bias(struct vms_symbol_file *file, uint64_t bias);
uint64_t vms_symbol_file_bias(const struct vms_symbol_file *file);
/* Where the first loaded segment begins, without bias. */
uint64_t vms_symbol_file_base(const struct vms_symbol_file *file);
/* Address of a symbol without bias. */
bool vms_symbol_file_lookup(const struct vms_symbol_file *file, const char *name, uint64_t *ret);
/* Its symbols with the bias applied; a new reference. */
struct vms_symbol_table *vms_symbol_file_table(struct vms_symbol_file *file);
/*
 * Its functions by their offsets in the file, which is how a process maps them; a new table, which
 * may be empty.
 */
struct vms_symbol_table *vms_symbol_file_offsets(const struct vms_symbol_file *file);
/* Source position of an address (bias included). `*source` is owned by the file. */
bool vms_symbol_file_line(struct vms_symbol_file *file, uint64_t va, const char **source,
			  unsigned *line);

VMS_END_DECLS
