/* SPDX-License-Identifier: MIT */
/*
 * A table of facts, printed as aligned text or as JSON.
 *
 * Threads: one at a time may add rows; then several may print.
 */
#pragma once

#include <stdint.h>
#include <vmscope/declare.h>

VMS_BEGIN_DECLS

typedef struct vms_table vms_table;

enum vms_column_kind {
	VMS_COLUMN_TEXT,    /* const char *; NULL is "-" in text and null in JSON */
	VMS_COLUMN_NUMBER,  /* uint64_t; decimal, right-aligned; VMS_TABLE_UNKNOWN as NULL above */
	VMS_COLUMN_ADDRESS, /* uint64_t; hexadecimal with 0x; a string in JSON */
	VMS_COLUMN_BYTES,   /* uint64_t; "4.0 GiB" in text, a number in JSON; the same */
	VMS_COLUMN_REAL,    /* double; "12.34"; NaN is as NULL above */
	VMS_COLUMN_CHANGE,  /* the same with a sign: "+12.34" */
};

/* A number that is not known. */
#define VMS_TABLE_UNKNOWN UINT64_MAX

struct vms_column {
	const char *name; /* the key in JSON; in upper case, the heading in text */
	enum vms_column_kind kind;
};

/* Makes an empty table. `columns` ends with a NULL name and is copied; the names are not. */
struct vms_table *vms_table_new(const struct vms_column *columns);
void vms_table_free(struct vms_table *table);
/* Adds a row: one argument per column, of the type that the column's kind says. Copies strings. */
void vms_table_add(struct vms_table *table, ...);
size_t vms_table_rows(const struct vms_table *table);
/* Appends the table as text with a heading line. No line ends in blanks. */
void vms_table_text(const struct vms_table *table, GString *out);
/* Appends the table as a JSON array with an object per row. */
void vms_table_json(const struct vms_table *table, GString *out);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_table, vms_table_free)

VMS_END_DECLS
