/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include <json-c/json.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <vmscope/table.h>

#define WIDEST 64 /* characters of a cell that make its column wider */

union cell {
	char *text;
	uint64_t number;
	double real;
};

struct vms_table {
	size_t n_columns;
	struct vms_column *columns;
	GArray *cells; /* union cell, row by row */
};

struct vms_table *vms_table_new(const struct vms_column *columns)
{
	struct vms_table *table = g_new0(struct vms_table, 1);
	while (columns[table->n_columns].name)
		table->n_columns++;
	table->columns = g_memdup2(columns, table->n_columns * sizeof(*columns));
	table->cells = g_array_new(FALSE, FALSE, sizeof(union cell));
	return table;
}

static enum vms_column_kind get_kind(const struct vms_table *table, size_t cell)
{
	return table->columns[cell % table->n_columns].kind;
}

static bool is_text(const struct vms_table *table, size_t cell)
{
	return get_kind(table, cell) == VMS_COLUMN_TEXT;
}

static bool is_real(const struct vms_table *table, size_t cell)
{
	const enum vms_column_kind kind = get_kind(table, cell);
	return kind == VMS_COLUMN_REAL || kind == VMS_COLUMN_CHANGE;
}

void vms_table_free(struct vms_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->cells->len; i++) {
		if (is_text(table, i))
			g_free(g_array_index(table->cells, union cell, i).text);
	}
	g_array_unref(table->cells);
	g_free(table->columns);
	g_free(table);
}

void vms_table_add(struct vms_table *table, ...)
{
	va_list args;
	va_start(args, table);
	for (size_t i = 0; i < table->n_columns; i++) {
		union cell cell;
		if (is_text(table, i))
			cell.text = g_strdup(va_arg(args, const char *));
		else if (is_real(table, i))
			cell.real = va_arg(args, double);
		else
			cell.number = va_arg(args, uint64_t);
		g_array_append_val(table->cells, cell);
	}
	va_end(args);
}

size_t vms_table_rows(const struct vms_table *table)
{
	return table->cells->len / table->n_columns;
}

static bool is_unknown(const struct vms_table *table, size_t i)
{
	union cell cell = g_array_index(table->cells, union cell, i);
	if (is_text(table, i))
		return !cell.text;
	if (is_real(table, i))
		return isnan(cell.real);
	const enum vms_column_kind kind = get_kind(table, i);
	return (kind == VMS_COLUMN_NUMBER || kind == VMS_COLUMN_BYTES) &&
	       cell.number == VMS_TABLE_UNKNOWN;
}

static char *format_cell(const struct vms_table *table, size_t i)
{
	union cell cell = g_array_index(table->cells, union cell, i);
	if (is_unknown(table, i))
		return g_strdup("-");
	switch (get_kind(table, i)) {
	case VMS_COLUMN_NUMBER: return g_strdup_printf("%" G_GUINT64_FORMAT, cell.number);
	case VMS_COLUMN_ADDRESS: return g_strdup_printf("0x%" G_GINT64_MODIFIER "x", cell.number);
	case VMS_COLUMN_BYTES: return vms_text_bytes(cell.number);
	case VMS_COLUMN_REAL: return g_strdup_printf("%.2f", cell.real);
	case VMS_COLUMN_CHANGE: return g_strdup_printf("%+.2f", cell.real);
	case VMS_COLUMN_TEXT: break;
	}
	return g_strdup(cell.text);
}

static void append_padded(GString *out, const char *text, size_t width, bool to_the_right)
{
	size_t length = (size_t)g_utf8_strlen(text, -1);
	int padding = width > length ? (int)(width - length) : 0;
	g_string_append_printf(out, "%*s%s%*s", to_the_right ? padding : 0, "", text,
			       to_the_right ? 0 : padding, "");
}

/*
 * All cells as text, with the headings as the first row; `widths` of the columns in characters.
 * Longer cells, as names of C++ may be, do not make a column wide: they move the rest of their row.
 */
static char **format_cells(const struct vms_table *table, size_t *widths)
{
	size_t n = table->n_columns, total = n + table->cells->len;
	char **texts = g_new0(char *, total + 1);
	for (size_t i = 0; i < total; i++) {
		texts[i] = i < n ? g_ascii_strup(table->columns[i].name, -1)
				 : format_cell(table, i - n);
		const size_t width = (size_t)g_utf8_strlen(texts[i], -1);
		if (width <= WIDEST)
			widths[i % n] = MAX(widths[i % n], width);
	}
	return texts;
}

void vms_table_text(const struct vms_table *table, GString *out)
{
	size_t n = table->n_columns;
	g_autofree size_t *widths = g_new0(size_t, n);
	g_auto(GStrv) texts = format_cells(table, widths);
	for (size_t i = 0; texts[i]; i++) {
		bool last = i % n == n - 1, text = is_text(table, i);
		append_padded(out, texts[i], last && text ? 0 : widths[i % n], !text);
		g_string_append(out, last ? "\n" : "  ");
		while (last && out->len > 1 && out->str[out->len - 2] == ' ')
			g_string_erase(out, (gssize)out->len - 2, 1);
	}
}

static json_object *cell_json(const struct vms_table *table, size_t i)
{
	union cell cell = g_array_index(table->cells, union cell, i);
	if (is_unknown(table, i))
		return NULL;
	switch (get_kind(table, i)) {
	case VMS_COLUMN_REAL:
	case VMS_COLUMN_CHANGE: {
		char text[G_ASCII_DTOSTR_BUF_SIZE];
		g_ascii_formatd(text, sizeof(text), "%.4f", cell.real);
		return json_object_new_double_s(cell.real, text);
	}
	case VMS_COLUMN_NUMBER:
	case VMS_COLUMN_BYTES: return json_object_new_uint64(cell.number);
	case VMS_COLUMN_ADDRESS: {
		g_autofree char *text = format_cell(table, i);
		return json_object_new_string(text);
	}
	case VMS_COLUMN_TEXT: break;
	}
	return json_object_new_string(cell.text);
}

void vms_table_json(const struct vms_table *table, GString *out)
{
	json_object *rows = json_object_new_array();
	json_object *row = NULL;
	for (size_t i = 0; i < table->cells->len; i++) {
		size_t column = i % table->n_columns;
		if (column == 0) {
			row = json_object_new_object();
			json_object_array_add(rows, row);
		}
		json_object_object_add(row, table->columns[column].name, cell_json(table, i));
	}
	int flags = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE;
	g_string_append(out, json_object_to_json_string_ext(rows, flags));
	g_string_append_c(out, '\n');
	json_object_put(rows);
}
