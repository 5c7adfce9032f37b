/* SPDX-License-Identifier: MIT */
/*
 * Writes tracefiles of lcov: a section for each source file, with its functions and lines.
 * Functions without a known source file are in a section of their module.
 */
#include "base/keyed_hash.h"
#include "coverage/report-private.h"

/* A tracefile that is being made. */
struct tracefile {
	const struct vms_coverage_report *report;
	GString *out;
	GHashTable *names; /* of functions in the current section */
};

static void open_section(struct tracefile *file, const char *path)
{
	g_hash_table_remove_all(file->names);
	g_string_append_printf(file->out, "SF:%s\n", path);
}

/* Adds the address to a name that the section has already, because lcov needs unique names. */
static char *make_name(struct tracefile *file, const struct vms_covered_function *function)
{
	char *name = g_strdup(function->name);
	if (g_hash_table_contains(file->names, name)) {
		g_free(name);
		name = g_strdup_printf("%s@%" G_GINT64_MODIFIER "x", function->name, function->va);
	}
	g_strdelimit(name, "\n\r,", '?');
	g_hash_table_add(file->names, g_strdup(name));
	return name;
}

/* `lines` has the line of each function. */
static void add_functions(struct tracefile *file, const guint *functions, const uint32_t *lines,
			  guint n)
{
	const GArray *all = file->report->functions;
	g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
	guint n_ran = 0;
	for (guint i = 0; i < n; i++) {
		const struct vms_covered_function *function =
			&g_array_index(all, struct vms_covered_function, functions[i]);
		char *name = make_name(file, function);
		g_ptr_array_add(names, name);
		g_string_append_printf(file->out, "FN:%u,%s\n", lines[i], name);
	}
	for (guint i = 0; i < n; i++) {
		const bool ran = g_array_index(all, struct vms_covered_function, functions[i]).ran;
		n_ran += ran;
		g_string_append_printf(file->out, "FNDA:%d,%s\n", ran,
				       (char *)g_ptr_array_index(names, i));
	}
	g_string_append_printf(file->out, "FNF:%u\nFNH:%u\n", n, n_ran);
}

/* ---- with lines ------------------------------------------------------------------------- */

/* Writes the lines of a file from `*at` on, and moves `*at` to the next file. */
static void add_lines(struct tracefile *file, uint32_t source, guint *at)
{
	const GArray *lines = file->report->lines->lines;
	guint n = 0, n_ran = 0;
	for (; *at < lines->len; (*at)++) {
		const struct vms_covered_line *line =
			&g_array_index(lines, struct vms_covered_line, *at);
		if (line->file != source)
			break;
		n++;
		n_ran += line->ran;
		g_string_append_printf(file->out, "DA:%u,%d\n", line->line, line->ran);
	}
	g_string_append_printf(file->out, "LF:%u\nLH:%u\n", n, n_ran);
}

/* Returns arrays of indices of functions (guint) by source file. */
static GPtrArray *sort_functions(const struct vms_coverage_report *report)
{
	const struct vms_covered_lines *lines = report->lines;
	GPtrArray *sorted = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
	for (guint i = 0; i < lines->files->len; i++)
		g_ptr_array_add(sorted, g_array_new(FALSE, FALSE, sizeof(guint)));
	for (guint i = 0; i < lines->places->len; i++) {
		const struct vms_function_place *place =
			&g_array_index(lines->places, struct vms_function_place, i);
		if (place->line)
			g_array_append_val((GArray *)g_ptr_array_index(sorted, place->file), i);
	}
	return sorted;
}

static void add_sources(struct tracefile *file)
{
	const struct vms_covered_lines *lines = file->report->lines;
	g_autoptr(GPtrArray) sorted = sort_functions(file->report);
	guint at = 0;
	for (guint i = 0; i < lines->files->len; i++) {
		const GArray *functions = g_ptr_array_index(sorted, i);
		g_autofree uint32_t *numbers = g_new(uint32_t, functions->len + 1);
		for (guint k = 0; k < functions->len; k++)
			numbers[k] = g_array_index(lines->places, struct vms_function_place,
						   g_array_index(functions, guint, k))
					     .line;
		open_section(file, g_ptr_array_index(lines->files, i));
		add_functions(file, (const guint *)(void *)functions->data, numbers,
			      functions->len);
		add_lines(file, i, &at);
		g_string_append(file->out, "end_of_record\n");
	}
}

/* ---- without lines ---------------------------------------------------------------------- */

static bool has_place(const struct vms_coverage_report *report, guint function)
{
	return report->lines &&
	       g_array_index(report->lines->places, struct vms_function_place, function).line;
}

/* Writes those functions of [first, end), all of one module, that have no source file. */
static void add_module(struct tracefile *file, guint first, guint end)
{
	const struct vms_covered_function *function =
		&g_array_index(file->report->functions, struct vms_covered_function, first);
	g_autofree guint *functions = g_new(guint, end - first);
	g_autofree uint32_t *lines = g_new(uint32_t, end - first);
	guint n = 0;
	for (guint i = first; i < end; i++) {
		if (has_place(file->report, i))
			continue;
		functions[n] = i;
		lines[n++] = i - first + 1;
	}
	if (n == 0)
		return;
	open_section(file, function->module ?: "vmlinux");
	add_functions(file, functions, lines, n);
	g_string_append(file->out, "end_of_record\n");
}

static void add_modules(struct tracefile *file)
{
	const GArray *functions = file->report->functions;
	guint first = 0;
	for (guint i = 1; i <= functions->len; i++) {
		const char *module =
			g_array_index(functions, struct vms_covered_function, first).module;
		if (i < functions->len &&
		    g_strcmp0(g_array_index(functions, struct vms_covered_function, i).module,
			      module) == 0)
			continue;
		add_module(file, first, i);
		first = i;
	}
}

void vms_coverage_report_lcov(const struct vms_coverage_report *report, GString *out)
{
	struct tracefile file = {
		.report = report,
		.out = out,
		.names = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL),
	};
	g_string_append(out, "TN:vmscope\n");
	if (report->lines)
		add_sources(&file);
	add_modules(&file);
	g_hash_table_unref(file.names);
}
