/* SPDX-License-Identifier: MIT */
/* A table of facts, printed as aligned text or as JSON. */
#pragma once

#include <glib.h>
#include <stdint.h>

G_BEGIN_DECLS

typedef struct vms_table vms_table;

enum vms_column_kind {
	VMS_COLUMN_TEXT,    /* const char *; NULL prints as "-" and is null in JSON */
	VMS_COLUMN_NUMBER,  /* uint64_t, decimal, right-aligned */
	VMS_COLUMN_ADDRESS, /* uint64_t, hexadecimal with 0x; a string in JSON */
	VMS_COLUMN_BYTES,   /* uint64_t, "4.0 GiB" in text, the number in JSON */
};

struct vms_column {
	const char *name; /* JSON key; upper-cased it is the heading */
	enum vms_column_kind kind;
};

/* `columns` ends with a NULL name and is copied. */
struct vms_table *vms_table_new(const struct vms_column *columns);
void vms_table_free(struct vms_table *table);
/* Adds a row: one argument per column, of the type that its kind says. Strings are copied. */
void vms_table_add(struct vms_table *table, ...);
size_t vms_table_rows(const struct vms_table *table);
/* Text with a heading line; lines end without trailing blanks. */
void vms_table_text(const struct vms_table *table, GString *out);
/* A JSON array with an object per row. */
void vms_table_json(const struct vms_table *table, GString *out);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_table, vms_table_free)

G_END_DECLS
