/* SPDX-License-Identifier: MIT */
#include "flow_tables.h"

#include "flow_spec.h"
#include "values.h"
#include <string.h>

void flow_tables_clear_options(struct flow_tables_options *options)
{
	char *texts[] = { options->count_by, options->by, options->interval, options->max_keys };
	char **arrays[] = { options->sum,     options->min,  options->max,
			    options->average, options->hist, options->lhist };
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
		g_free(texts[i]);
	for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
		g_strfreev(arrays[i]);
}

/* ---- keys ------------------------------------------------------------------------------- */

static void clear_key(gpointer data)
{
	g_free(((struct flow_key *)data)->name);
}

static bool add_keys(struct session *session, struct flow_tables *tables, const char *text,
		     GError **error)
{
	g_autoptr(GPtrArray) entries = text ? flow_spec_split(text, error) : g_ptr_array_new();
	for (guint i = 0; entries && i < entries->len; i++) {
		const char *entry = entries->pdata[i];
		struct flow_key key = { .is_function = g_str_equal(entry, "function") };
		if (!key.is_function) {
			key.entry = vms_probe_entries(tables->key);
			if (!flow_spec_add_entry(session, tables->key, entry, error))
				return false;
		}
		key.name = g_strdup(entry);
		g_array_append_val(tables->keys, key);
	}
	return entries;
}

static bool has_function(const struct flow_tables *tables)
{
	for (guint i = 0; i < tables->keys->len; i++)
		if (g_array_index(tables->keys, struct flow_key, i).is_function)
			return true;
	return false;
}

/* ---- numbers and figures ------------------------------------------------------------------ */

static void clear_figure(gpointer data)
{
	g_free(((struct flow_figure *)data)->name);
}

/* Returns the index of an expression's number, and adds the number if it is new. -1 on errors. */
static gssize add_number(struct flow_tables *tables, const char *text,
			 const struct vms_aggregate_number *kind, GError **error)
{
	const size_t n = vms_probe_entries(tables->numbers);
	for (size_t i = 0; i < n && kind->histogram == VMS_HISTOGRAM_NONE; i++)
		if (g_str_equal(vms_probe_entry_name(tables->numbers, i), text))
			return (gssize)i;
	const struct vms_entry number = { .kind = VMS_ENTRY_EXPRESSION, .expression = text };
	if (!vms_probe_add(tables->numbers, &number, 1, error))
		return -1;
	g_array_append_val(tables->kinds, *kind);
	return (gssize)n;
}

static bool add_figure(struct flow_tables *tables, enum flow_figure_kind kind, const char *function,
		       const char *text, const struct vms_aggregate_number *number, GError **error)
{
	g_autofree char *expression = g_strstrip(g_strdup(text));
	const gssize index = add_number(tables, expression, number, error);
	if (index < 0)
		return false;
	const struct flow_figure figure = {
		.kind = kind,
		.name = g_strdup_printf("%s(%s)", function, expression),
		.number = (size_t)index,
	};
	g_array_append_val(tables->figures, figure);
	return true;
}

/* Cuts the number after the last ":" off `text`. */
static bool cut_number(char *text, int64_t *ret)
{
	char *colon = strrchr(text, ':'), *end;
	if (!colon || !colon[1])
		return false;
	errno = 0;
	*ret = g_ascii_strtoll(colon + 1, &end, 0);
	*colon = 0;
	return !*end && errno == 0;
}

static bool add_linear_histogram(struct flow_tables *tables, const char *text, GError **error)
{
	g_autofree char *expression = g_strdup(text);
	int64_t min, max, step;
	if (!cut_number(expression, &step) || !cut_number(expression, &max) ||
	    !cut_number(expression, &min) || max <= min || step <= 0) {
		usage_error(error,
			    "--lhist %s: EXPRESSION:MIN:MAX:STEP is needed, as arg2:0:4096:128",
			    text);
		return false;
	}
	const uint64_t width = (uint64_t)max - (uint64_t)min;
	const uint64_t n = width / (uint64_t)step + (width % (uint64_t)step != 0);
	if (n > VMS_AGGREGATE_STEPS_MAX) {
		usage_error(error,
			    "--lhist %s: the histogram would have more than %d cells: use a larger "
			    "STEP",
			    text, VMS_AGGREGATE_STEPS_MAX);
		return false;
	}
	const struct vms_aggregate_number number = { VMS_HISTOGRAM_LINEAR, tables->is_unsigned, min,
						     (uint64_t)step, (unsigned)n };
	return add_figure(tables, FLOW_HISTOGRAM, "lhist", expression, &number, error);
}

static bool add_figures_of_kind(struct flow_tables *tables, enum flow_figure_kind kind,
				const char *function, char **texts, GError **error)
{
	const struct vms_aggregate_number number = {
		.histogram = kind == FLOW_HISTOGRAM ? VMS_HISTOGRAM_LOG2 : VMS_HISTOGRAM_NONE,
		.is_unsigned = tables->is_unsigned,
	};
	for (; texts && *texts; texts++)
		if (!add_figure(tables, kind, function, *texts, &number, error))
			return false;
	return true;
}

/* Histograms come first, because a number with a histogram has all other figures, too. */
static bool add_figures(struct flow_tables *tables, const struct flow_tables_options *options,
			GError **error)
{
	const struct flow_figure count = { .kind = FLOW_COUNT, .name = g_strdup("count") };
	bool done = add_figures_of_kind(tables, FLOW_HISTOGRAM, "hist", options->hist, error);
	for (char **text = options->lhist; done && text && *text; text++)
		done = add_linear_histogram(tables, *text, error);
	done = done && add_figures_of_kind(tables, FLOW_SUM, "sum", options->sum, error) &&
	       add_figures_of_kind(tables, FLOW_MIN, "min", options->min, error) &&
	       add_figures_of_kind(tables, FLOW_MAX, "max", options->max, error) &&
	       add_figures_of_kind(tables, FLOW_AVERAGE, "avg", options->average, error);
	g_array_append_val(tables->figures, count);
	return done;
}

/* ---- tables -------------------------------------------------------------------------------- */

static bool wants_table(const struct flow_tables_options *options)
{
	return options->count || options->count_by || options->sum || options->min ||
	       options->max || options->average || options->hist || options->lhist;
}

/* Refuses options that have no meaning without a table. */
static bool check_without_table(const struct flow_tables_options *options, GError **error)
{
	if (!options->by && !options->interval && !options->max_keys && !options->is_unsigned)
		return true;
	usage_error(error, "--by, --unsigned, --interval and --max-keys need one of --count, "
			   "--sum, --min, --max, --avg, --hist, --lhist");
	return false;
}

static bool fill_tables(struct session *session, struct flow_tables *tables,
			const struct flow_tables_options *options, GError **error)
{
	double seconds = 0;
	tables->is_unsigned = options->is_unsigned;
	if (!value_number("--interval", options->interval, 0.1, 86400, "from 0.1 to 86400",
			  &seconds, error) ||
	    !value_unsigned("--max-keys", options->max_keys, 1, 1 << 20, &tables->max_keys, error))
		return false;
	tables->interval_ns = (uint64_t)(seconds * 1e9);
	return add_keys(session, tables, options->count_by, error) &&
	       add_keys(session, tables, options->by, error) && add_figures(tables, options, error);
}

struct flow_tables *flow_tables_new(struct session *session,
				    const struct flow_tables_options *options, GError **error)
{
	if (!wants_table(options)) {
		check_without_table(options, error);
		return NULL;
	}
	struct flow_tables *tables = g_new0(struct flow_tables, 1);
	tables->keys = g_array_new(FALSE, FALSE, sizeof(struct flow_key));
	tables->figures = g_array_new(FALSE, FALSE, sizeof(struct flow_figure));
	tables->kinds = g_array_new(FALSE, FALSE, sizeof(struct vms_aggregate_number));
	g_array_set_clear_func(tables->keys, clear_key);
	g_array_set_clear_func(tables->figures, clear_figure);
	tables->key = flow_spec_probe(session, "", error);
	tables->numbers = tables->key ? flow_spec_probe(session, "", error) : NULL;
	if (tables->numbers && fill_tables(session, tables, options, error))
		return tables;
	flow_tables_free(tables);
	return NULL;
}

void flow_tables_free(struct flow_tables *tables)
{
	if (!tables)
		return;
	g_array_unref(tables->keys);
	g_array_unref(tables->figures);
	g_array_unref(tables->kinds);
	vms_probe_unref(tables->key);
	vms_probe_unref(tables->numbers);
	g_free(tables);
}

bool flow_tables_prepare(const struct flow_tables *tables, struct vms_flow *flow, GError **error)
{
	const struct vms_aggregate_options options = {
		.size = sizeof(options),
		.key = tables->key,
		.by_place = has_function(tables),
		.numbers = tables->numbers,
		.kinds = (const struct vms_aggregate_number *)(const void *)tables->kinds->data,
		.max_keys = tables->max_keys,
	};
	return vms_flow_aggregate(flow, &options, error);
}

bool flow_tables_is_due(struct flow_tables *tables, uint64_t begin_ns, uint64_t now_ns)
{
	if (!tables->interval_ns)
		return false;
	if (!tables->next_ns)
		tables->next_ns = begin_ns + tables->interval_ns;
	if (now_ns < tables->next_ns)
		return false;
	while (tables->next_ns <= now_ns)
		tables->next_ns += tables->interval_ns;
	return true;
}
