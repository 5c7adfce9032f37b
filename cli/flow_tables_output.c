/* SPDX-License-Identifier: MIT */
#include "flow_output.h"
#include "flow_tables.h"
#include "json_values.h"
#include <string.h>

#define BAR_WIDTH 40 /* characters of the longest bar of a histogram */

/* A table, and what is needed to show it. */
struct view {
	struct session *session;
	const struct flow_tables *tables;
	const struct vms_aggregate *aggregate;
};

static const struct flow_key *get_key(const struct view *view, guint index)
{
	return &g_array_index(view->tables->keys, struct flow_key, index);
}

static const struct flow_figure *get_figure(const struct view *view, guint index)
{
	return &g_array_index(view->tables->figures, struct flow_figure, index);
}

static bool is_signed(const struct view *view)
{
	return !view->tables->is_unsigned;
}

/* ---- text of values --------------------------------------------------------------------- */

static char *format_key(const struct view *view, const struct flow_key *key, size_t row)
{
	struct vms_aggregate_row place;
	struct vms_flow_value value;
	GString *text = g_string_new(NULL);
	if (key->is_function && vms_aggregate_get_row(view->aggregate, row, &place)) {
		g_string_free(text, TRUE);
		return flow_output_place(view->session, place.va);
	}
	if (vms_aggregate_get_key(view->aggregate, row, key->entry, &value))
		flow_output_value(text, view->tables->key, key->entry, &value);
	return g_string_free(text, FALSE);
}

static char *format_number(const struct view *view, uint64_t number)
{
	return is_signed(view) ? g_strdup_printf("%" G_GINT64_FORMAT, (int64_t)number)
			       : g_strdup_printf("%" G_GUINT64_FORMAT, number);
}

static char *format_figure(const struct view *view, const struct flow_figure *figure, size_t row)
{
	struct vms_aggregate_row hits;
	struct vms_aggregate_sum sum;
	vms_aggregate_get_row(view->aggregate, row, &hits);
	vms_aggregate_get_sum(view->aggregate, row, figure->number, &sum);
	switch (figure->kind) {
	case FLOW_SUM: return format_number(view, sum.sum);
	case FLOW_MIN: return format_number(view, sum.min);
	case FLOW_MAX: return format_number(view, sum.max);
	case FLOW_AVERAGE: return g_strdup_printf("%.1f", sum.average);
	case FLOW_COUNT:
	case FLOW_HISTOGRAM:
	default: return g_strdup_printf("%" G_GUINT64_FORMAT, hits.count);
	}
}

/* ---- order ------------------------------------------------------------------------------- */

struct ranked {
	size_t row;
	double rank;
};

static bool is_column(const struct flow_figure *figure)
{
	return figure->kind != FLOW_HISTOGRAM;
}

/* Returns the first figure of the table. There is always one, because hits are counted. */
static const struct flow_figure *get_first_column(const struct view *view)
{
	guint i = 0;
	while (!is_column(get_figure(view, i)))
		i++;
	return get_figure(view, i);
}

static double convert_to_double(const struct view *view, uint64_t number)
{
	return is_signed(view) ? (double)(int64_t)number : (double)number;
}

static double compute_rank(const struct view *view, size_t row)
{
	const struct flow_figure *figure = get_first_column(view);
	struct vms_aggregate_row hits;
	struct vms_aggregate_sum sum;
	vms_aggregate_get_row(view->aggregate, row, &hits);
	vms_aggregate_get_sum(view->aggregate, row, figure->number, &sum);
	switch (figure->kind) {
	case FLOW_SUM: return convert_to_double(view, sum.sum);
	case FLOW_MIN: return convert_to_double(view, sum.min);
	case FLOW_MAX: return convert_to_double(view, sum.max);
	case FLOW_AVERAGE: return sum.average;
	case FLOW_COUNT:
	case FLOW_HISTOGRAM:
	default: return (double)hits.count;
	}
}

static gint compare_ranks(gconstpointer a, gconstpointer b)
{
	const struct ranked *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	return x->row < y->row ? -1 : 1;
}

/* Returns the rows sorted by the first column of figures, largest first. */
static GArray *rank_rows(const struct view *view)
{
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct ranked));
	for (size_t row = 0; row < vms_aggregate_rows(view->aggregate); row++) {
		const struct ranked ranked = { row, compute_rank(view, row) };
		g_array_append_val(rows, ranked);
	}
	g_array_sort(rows, compare_ranks);
	return rows;
}

/* ---- table ------------------------------------------------------------------------------- */

static bool is_stack(const struct view *view, const struct flow_key *key)
{
	return !key->is_function &&
	       vms_probe_entry_kind(view->tables->key, key->entry) == VMS_ENTRY_STACK;
}

/* Counts the columns of keys. Stacks are not columns: they have their own lines. */
static guint count_key_columns(const struct view *view)
{
	guint n = 0;
	for (guint i = 0; i < view->tables->keys->len; i++)
		n += !is_stack(view, get_key(view, i));
	return n;
}

static void append_stacks(const struct view *view, size_t row, GString *out)
{
	struct vms_flow_value value;
	for (guint i = 0; i < view->tables->keys->len; i++) {
		const struct flow_key *key = get_key(view, i);
		if (is_stack(view, key) &&
		    vms_aggregate_get_key(view->aggregate, row, key->entry, &value))
			flow_output_stack(out, view->tables->key, key->entry, &value);
	}
}

/* Returns the texts of a row, one per column. If `row` is NULL, returns the headings. */
static GPtrArray *make_cells(const struct view *view, const struct ranked *row)
{
	GPtrArray *cells = g_ptr_array_new_with_free_func(g_free);
	for (guint i = 0; i < view->tables->keys->len; i++)
		if (!is_stack(view, get_key(view, i)))
			g_ptr_array_add(cells, row ? format_key(view, get_key(view, i), row->row)
						   : g_strdup(get_key(view, i)->name));
	for (guint i = 0; i < view->tables->figures->len; i++)
		if (is_column(get_figure(view, i)))
			g_ptr_array_add(cells,
					row ? format_figure(view, get_figure(view, i), row->row)
					    : g_strdup(get_figure(view, i)->name));
	return cells;
}

static void append_line(const struct view *view, GPtrArray *cells, const glong *widths,
			GString *out)
{
	const guint n_keys = count_key_columns(view);
	for (guint i = 0; i < cells->len; i++) {
		const char *cell = cells->pdata[i];
		const int pad = (int)(widths[i] - g_utf8_strlen(cell, -1));
		if (i < n_keys)
			g_string_append_printf(out, "%s%*s  ", cell, pad, "");
		else
			g_string_append_printf(out, "%*s%s%s", pad, "", cell,
					       i + 1 < cells->len ? "  " : "\n");
	}
}

static void append_table(const struct view *view, GArray *rows, GString *out)
{
	g_autoptr(GPtrArray) lines =
		g_ptr_array_new_with_free_func((void (*)(void *))g_ptr_array_unref);
	g_ptr_array_add(lines, make_cells(view, NULL));
	for (guint i = 0; i < rows->len; i++)
		g_ptr_array_add(lines, make_cells(view, &g_array_index(rows, struct ranked, i)));
	const guint n = ((const GPtrArray *)lines->pdata[0])->len;
	g_autofree glong *widths = g_new0(glong, n);
	for (guint i = 0; i < lines->len; i++)
		for (guint j = 0; j < n; j++)
			widths[j] =
				MAX(widths[j],
				    g_utf8_strlen(((GPtrArray *)lines->pdata[i])->pdata[j], -1));
	for (guint i = 0; i < lines->len; i++) {
		append_line(view, lines->pdata[i], widths, out);
		if (i > 0)
			append_stacks(view, g_array_index(rows, struct ranked, i - 1).row, out);
	}
}

/* ---- histograms -------------------------------------------------------------------------- */

/* Appends a number, shortened like 65536 to 64K if that is exact. */
static void append_short(const struct view *view, GString *out, uint64_t number)
{
	static const char units[] = " KMGTPE";
	const bool is_negative = is_signed(view) && (int64_t)number < 0;
	uint64_t size = is_negative ? 0 - number : number;
	unsigned unit = 0;
	for (; size && size % 1024 == 0 && unit + 2 < sizeof(units); unit++)
		size /= 1024;
	g_string_append_printf(out, "%s%" G_GUINT64_FORMAT, is_negative ? "-" : "", size);
	if (unit)
		g_string_append_c(out, units[unit]);
}

/* "[4]", "[4, 8)", "(..., 0)" or "[4K, ...)". */
static char *label_cell(const struct view *view, size_t number, unsigned cell)
{
	const uint64_t lowest = is_signed(view) ? (uint64_t)INT64_MIN : 0;
	const uint64_t highest = is_signed(view) ? (uint64_t)INT64_MAX : UINT64_MAX;
	uint64_t first, last;
	GString *label = g_string_new(NULL);
	vms_aggregate_cell(view->aggregate, number, cell, &first, &last);
	if (cell == 0 && first == lowest && first != last)
		g_string_append(label, "(...");
	else
		append_short(view, g_string_append_c(label, '['), first);
	if (last == highest)
		g_string_append(label, ", ...)");
	else if (first == last)
		g_string_append_c(label, ']');
	else
		append_short(view, g_string_append(label, ", "), last + 1);
	if (first != last && last != highest)
		g_string_append_c(label, ')');
	return g_string_free(label, FALSE);
}

static void append_bars(const struct view *view, size_t row, size_t number, GString *out)
{
	struct vms_aggregate_sum sum;
	uint64_t most = 1;
	vms_aggregate_get_sum(view->aggregate, row, number, &sum);
	unsigned first = 0, end = sum.n_cells;
	while (first < end && !sum.cells[first])
		first++;
	while (end > first && !sum.cells[end - 1])
		end--;
	for (unsigned cell = first; cell < end; cell++)
		most = MAX(most, sum.cells[cell]);
	for (unsigned cell = first; cell < end; cell++) {
		g_autofree char *label = label_cell(view, number, cell);
		const double share = (double)sum.cells[cell] / (double)most;
		g_autofree char *bar = g_strnfill((gsize)(share * BAR_WIDTH), '@');
		g_string_append_printf(out, "%-20s %12" G_GINT64_MODIFIER "u |%-*s|\n", label,
				       sum.cells[cell], BAR_WIDTH, bar);
	}
}

static void append_histogram(const struct view *view, const struct flow_figure *figure,
			     GArray *rows, GString *out)
{
	for (guint i = 0; i < rows->len; i++) {
		const size_t row = g_array_index(rows, struct ranked, i).row;
		g_string_append_printf(out, "\n%s", figure->name);
		for (guint j = 0; j < view->tables->keys->len; j++) {
			g_autofree char *text = format_key(view, get_key(view, j), row);
			g_string_append_printf(out, "%s%s=%s", j ? "  " : " of ",
					       get_key(view, j)->name, text);
		}
		g_string_append(out, ":\n");
		append_bars(view, row, figure->number, out);
	}
}

static void append_text(const struct view *view, uint64_t elapsed_ns, GString *out)
{
	g_autoptr(GArray) rows = rank_rows(view);
	if (view->tables->interval_ns)
		g_string_append_printf(out, "after %.1f s:\n", (double)elapsed_ns / 1e9);
	append_table(view, rows, out);
	for (guint i = 0; i < view->tables->figures->len; i++)
		if (!is_column(get_figure(view, i)))
			append_histogram(view, get_figure(view, i), rows, out);
	g_string_append_c(out, '\n');
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static struct json_object *make_json_key(const struct view *view, const struct flow_key *key,
					 size_t row)
{
	struct json_object *object = json_object_new_object();
	struct vms_aggregate_row place;
	struct vms_flow_value value;
	json_object_object_add(object, "name", json_object_new_string(key->name));
	if (key->is_function && vms_aggregate_get_row(view->aggregate, row, &place)) {
		g_autofree char *name = flow_output_place(view->session, place.va);
		json_object_object_add(object, "status", json_object_new_string("known"));
		json_object_object_add(object, "value", json_object_new_string(name));
		json_object_object_add(object, "address", json_address(place.va));
	} else if (vms_aggregate_get_key(view->aggregate, row, key->entry, &value)) {
		flow_output_add_value(object, view->tables->key, key->entry, &value);
	}
	return object;
}

static struct json_object *make_json_number(const struct view *view, uint64_t number)
{
	return is_signed(view) ? json_object_new_int64((int64_t)number)
			       : json_object_new_uint64(number);
}

static struct json_object *make_json_cells(const struct view *view, size_t number,
					   const struct vms_aggregate_sum *sum)
{
	struct json_object *cells = json_object_new_array();
	for (unsigned i = 0; i < sum->n_cells; i++) {
		uint64_t first, last;
		if (!sum->cells[i] ||
		    !vms_aggregate_cell(view->aggregate, number, i, &first, &last))
			continue;
		struct json_object *cell = json_object_new_object();
		json_object_object_add(cell, "first", make_json_number(view, first));
		json_object_object_add(cell, "last", make_json_number(view, last));
		json_object_object_add(cell, "count", json_object_new_uint64(sum->cells[i]));
		json_object_array_add(cells, cell);
	}
	return cells;
}

static struct json_object *make_json_sums(const struct view *view, size_t row)
{
	struct json_object *numbers = json_object_new_array();
	struct vms_aggregate_sum sum;
	for (size_t i = 0; vms_aggregate_get_sum(view->aggregate, row, i, &sum); i++) {
		struct json_object *object = json_object_new_object();
		const char *name = vms_probe_entry_name(view->tables->numbers, i);
		json_object_object_add(object, "name", json_object_new_string(name));
		json_object_object_add(object, "sum", make_json_number(view, sum.sum));
		json_object_object_add(object, "min", make_json_number(view, sum.min));
		json_object_object_add(object, "max", make_json_number(view, sum.max));
		json_object_object_add(object, "average", json_object_new_double(sum.average));
		if (sum.n_cells)
			json_object_object_add(object, "cells", make_json_cells(view, i, &sum));
		json_object_array_add(numbers, object);
	}
	return numbers;
}

static struct json_object *make_json_row(const struct view *view, size_t row)
{
	struct json_object *object = json_object_new_object();
	struct json_object *key = json_object_new_array();
	struct vms_aggregate_row hits;
	vms_aggregate_get_row(view->aggregate, row, &hits);
	for (guint i = 0; i < view->tables->keys->len; i++)
		json_object_array_add(key, make_json_key(view, get_key(view, i), row));
	json_object_object_add(object, "key", key);
	json_object_object_add(object, "count", json_object_new_uint64(hits.count));
	json_object_object_add(object, "numbers", make_json_sums(view, row));
	return object;
}

static void append_json(const struct view *view, uint64_t elapsed_ns, GString *out)
{
	g_autoptr(GArray) ranked = rank_rows(view);
	struct json_object *object = json_object_new_object();
	struct json_object *rows = json_object_new_array();
	for (guint i = 0; i < ranked->len; i++)
		json_object_array_add(
			rows, make_json_row(view, g_array_index(ranked, struct ranked, i).row));
	json_object_object_add(object, "time_ns", json_object_new_uint64(elapsed_ns));
	json_object_object_add(object, "rows", rows);
	json_object_object_add(object, "unfit",
			       json_object_new_uint64(vms_aggregate_unfit(view->aggregate)));
	flow_output_object(out, object);
}

/* ---- both ---------------------------------------------------------------------------------- */

bool flow_tables_append(struct session *session, const struct flow_tables *tables,
			struct vms_flow *flow, uint64_t elapsed_ns, GString *out, GError **error)
{
	g_autoptr(vms_aggregate) aggregate = vms_flow_get_aggregate(flow, error);
	const struct view view = { session, tables, aggregate };
	if (!aggregate)
		return false;
	if (session->json)
		append_json(&view, elapsed_ns, out);
	else
		append_text(&view, elapsed_ns, out);
	return true;
}

bool flow_tables_append_summary(const struct session *session, struct vms_flow *flow, GString *out,
				GError **error)
{
	g_autoptr(vms_aggregate) aggregate = vms_flow_get_aggregate(flow, error);
	struct vms_flow_progress progress;
	struct vms_aggregate_row row;
	uint64_t hits = 0;
	if (!aggregate)
		return false;
	for (size_t i = 0; vms_aggregate_get_row(aggregate, i, &row); i++)
		hits += row.count;
	vms_flow_get_progress(flow, &progress);
	const struct flow_count counts[] = {
		{ "counted", "in the table", hits },
		{ "unfit", "that did not fit into the table", vms_aggregate_unfit(aggregate) },
		{ "rejected", "whose condition did not hold", progress.rejected },
		{ "unknown", "whose condition or numbers could not be evaluated",
		  progress.unknown },
		{ "lost", "lost", progress.lost },
	};
	flow_output_counts(session, counts, G_N_ELEMENTS(counts), out);
	return true;
}
