/* SPDX-License-Identifier: MIT */
#include "coverage/lines.h"
#include "base/keyed_hash.h"

/* Equal lines are merged whenever so many lines were added. */
#define MERGE_AT (1U << 22)

struct vms_covered_lines *vms_covered_lines_new(uint32_t n_functions)
{
	struct vms_covered_lines *lines = g_new(struct vms_covered_lines, 1);
	*lines = (struct vms_covered_lines) {
		.files = g_ptr_array_new_with_free_func(g_free),
		.index = g_hash_table_new(vms_hash_text, g_str_equal),
		.lines = g_array_new(FALSE, FALSE, sizeof(struct vms_covered_line)),
		.places = g_array_new(FALSE, TRUE, sizeof(struct vms_function_place)),
	};
	g_array_set_size(lines->places, n_functions);
	return lines;
}

void vms_covered_lines_free(struct vms_covered_lines *lines)
{
	if (!lines)
		return;
	g_hash_table_unref(lines->index);
	g_ptr_array_unref(lines->files);
	g_array_unref(lines->lines);
	g_array_unref(lines->places);
	g_free(lines);
}

uint32_t vms_covered_lines_file(struct vms_covered_lines *lines, const char *path)
{
	const guint known = GPOINTER_TO_UINT(g_hash_table_lookup(lines->index, path));
	if (known)
		return known - 1;
	char *copy = g_strdup(path);
	g_ptr_array_add(lines->files, copy);
	g_hash_table_insert(lines->index, copy, GUINT_TO_POINTER(lines->files->len));
	return lines->files->len - 1;
}

static int compare_lines(const void *a, const void *b)
{
	const struct vms_covered_line *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static void merge_lines(GArray *lines)
{
	struct vms_covered_line *all = (void *)lines->data;
	guint n = 0;
	g_array_sort(lines, compare_lines);
	for (guint i = 0; i < lines->len; i++) {
		if (n > 0 && compare_lines(&all[n - 1], &all[i]) == 0)
			all[n - 1].ran |= all[i].ran;
		else
			all[n++] = all[i];
	}
	g_array_set_size(lines, n);
}

void vms_covered_lines_add(struct vms_covered_lines *lines, uint32_t file, uint32_t line, bool ran)
{
	const struct vms_covered_line added = { file, line, ran };
	g_array_append_val(lines->lines, added);
	if (lines->lines->len % MERGE_AT == 0)
		merge_lines(lines->lines);
}

void vms_covered_lines_place(struct vms_covered_lines *lines, uint32_t function, uint32_t file,
			     uint32_t line)
{
	struct vms_function_place *place =
		&g_array_index(lines->places, struct vms_function_place, function);
	if (!place->line)
		*place = (struct vms_function_place) { file, line };
}

void vms_covered_lines_finish(struct vms_covered_lines *lines)
{
	merge_lines(lines->lines);
}
