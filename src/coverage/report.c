/* SPDX-License-Identifier: MIT */
#include "base/keyed_hash.h"
#include "coverage/report-private.h"

#include "symbol/lines.h"
#include "symbol/symbolizer-private.h"
#include <stdlib.h>

/* Maximum size of a block in bytes: QEMU translates 512 instructions at once. */
#define MAX_SPAN (512U * 16)

/* ---- a report as a value ---------------------------------------------------------------- */

struct vms_coverage_report *vms_coverage_report_ref(struct vms_coverage_report *report)
{
	g_atomic_ref_count_inc(&report->refs);
	return report;
}

void vms_coverage_report_unref(struct vms_coverage_report *report)
{
	if (!report || !g_atomic_ref_count_dec(&report->refs))
		return;
	vms_covered_lines_free(report->lines);
	g_array_unref(report->functions);
	g_array_unref(report->blocks);
	vms_texts_free(report->names);
	g_free(report);
}

const struct vms_covered_function *vms_coverage_report_functions(
	const struct vms_coverage_report *report, size_t *n)
{
	*n = report->functions->len;
	return (const void *)report->functions->data;
}

const struct vms_covered_block *vms_coverage_report_blocks(const struct vms_coverage_report *report,
							   size_t *n)
{
	*n = report->blocks->len;
	return (const void *)report->blocks->data;
}

void vms_coverage_report_totals(const struct vms_coverage_report *report,
				struct vms_coverage_totals *ret)
{
	*ret = report->totals;
}

/* ---- ranges of addresses --------------------------------------------------------------- */

/* Addresses that ran. */
struct range {
	uint64_t va, end;
};

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return x->va < y->va ? -1 : x->va > y->va;
}

/* Sorts ranges by address, and joins those that overlap. */
static void merge_ranges(GArray *ranges)
{
	struct range *all = (void *)ranges->data;
	guint n = 0;
	g_array_sort(ranges, compare_ranges);
	for (guint i = 0; i < ranges->len; i++) {
		if (n > 0 && all[i].va < all[n - 1].end)
			all[n - 1].end = MAX(all[n - 1].end, all[i].end);
		else
			all[n++] = all[i];
	}
	g_array_set_size(ranges, n);
}

/* True if any byte of [va, end) is in a range. */
static bool ranges_touch(const GArray *ranges, uint64_t va, uint64_t end)
{
	guint low = 0, high = ranges->len;
	while (low < high) {
		const guint middle = low + (high - low) / 2;
		if (g_array_index(ranges, struct range, middle).end <= va)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ranges->len && g_array_index(ranges, struct range, low).va < end;
}

/* ---- making a report ------------------------------------------------------------------- */

/* A report that is being made. */
struct work {
	const struct vms_coverage_link *link;
	struct vms_coverage_report *report;
	uint32_t n_blocks;  /* of the link; later blocks do not count */
	uint8_t *ran;	    /* by number of the block: see vms_coverage_link_ran */
	uint64_t *end;	    /* by number of the block: end of the last instruction that ran */
	uint32_t *function; /* by number of the block: index of its function */
	GArray *parts;	    /* struct range: code that ran in parts that were moved elsewhere */
	GArray *strays;	    /* struct stray: blocks of graphs outside their functions, by address */
};

struct stray {
	uint64_t va;
	uint32_t function; /* index */
};

/* The addresses of a block that ran. */
struct span {
	uint64_t va, end;
	uint32_t number;
};

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return x->va < y->va ? -1 : x->va > y->va;
}

/* Returns the index of the first span that begins at `va` or later. */
static guint find_span(const GArray *spans, uint64_t va)
{
	guint low = 0, high = spans->len;
	while (low < high) {
		const guint middle = low + (high - low) / 2;
		if (g_array_index(spans, struct span, middle).va < va)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Notes that a block was left at the instruction at `va`, which is in its middle. If several blocks
 * contain this instruction, it is not known which of them was left.
 */
static void note_amid(struct work *work, const GArray *spans, uint64_t va)
{
	const guint end = find_span(spans, va);
	guint first = end;
	for (guint i = end; i-- > 0;) {
		const struct span *span = &g_array_index(spans, struct span, i);
		if (va - span->va > MAX_SPAN)
			break;
		if (span->end <= va)
			continue;
		if (first < end && g_array_index(spans, struct span, first).va != span->va)
			return;
		first = i;
	}
	for (guint i = first; i < end; i++) {
		const struct span *span = &g_array_index(spans, struct span, i);
		if (span->va == g_array_index(spans, struct span, first).va && span->end > va)
			work->end[span->number] = MIN(work->end[span->number], va);
	}
}

/* Finds the end of the last instruction that ran in each block. */
static void find_ends(struct work *work)
{
	g_autoptr(GArray) spans = g_array_new(FALSE, FALSE, sizeof(struct span));
	work->end = g_new(uint64_t, work->n_blocks);
	for (uint32_t i = 0; i < work->n_blocks; i++) {
		const struct vms_agent_block_covered block = vms_coverage_link_block(work->link, i);
		const struct span span = { block.va, block.va + block.size, i };
		work->end[i] = UINT64_MAX;
		if (work->ran[i] && !(work->ran[i] & VMS_COVERAGE_RAN_AMID))
			g_array_append_val(spans, span);
	}
	g_array_sort(spans, compare_spans);
	for (uint32_t i = 0; i < work->n_blocks; i++)
		if (work->ran[i] & VMS_COVERAGE_RAN_AMID)
			note_amid(work, spans, vms_coverage_link_block(work->link, i).va);
	for (uint32_t i = 0; i < work->n_blocks; i++) {
		const struct vms_agent_block_covered block = vms_coverage_link_block(work->link, i);
		if (work->ran[i] & VMS_AGENT_RAN_END)
			work->end[i] = block.va + block.size;
		else if (work->end[i] == UINT64_MAX)
			work->end[i] = block.va + block.first_size;
	}
}

/* Adds the addresses that ran in a function's blocks. */
static void append_ranges(const struct work *work, const struct vms_coverage_function *function,
			  GArray *ranges)
{
	for (guint i = 0; i < function->blocks->len; i++) {
		const uint32_t number = g_array_index(function->blocks, uint32_t, i);
		const struct vms_agent_block_covered block =
			vms_coverage_link_block(work->link, number);
		const struct range range = { block.va, work->end[number] };
		if (work->ran[number])
			g_array_append_val(ranges, range);
	}
}

static bool lies_in(const struct vms_coverage_function *function, uint64_t va)
{
	return va >= function->va && va - function->va < function->size;
}

static uint32_t count_graph(const struct work *work, const struct vms_coverage_function *function,
			    const GArray *ranges)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < function->n_graph; i++)
		n += ranges_touch(lies_in(function, function->graph[i]) ? ranges : work->parts,
				  function->graph[i], function->graph[i] + 1);
	return n;
}

/* Assigns blocks to the function that contains their first byte. */
static void claim_blocks(struct work *work, const struct vms_coverage_function *function,
			 uint32_t index)
{
	for (guint i = 0; i < function->blocks->len; i++) {
		const uint32_t number = g_array_index(function->blocks, uint32_t, i);
		if (lies_in(function, vms_coverage_link_block(work->link, number).va))
			work->function[number] = index;
	}
}

static void note_strays(struct work *work, const struct vms_coverage_function *function)
{
	for (uint32_t i = 0; i < function->n_graph; i++) {
		const struct stray stray = { function->graph[i], work->report->functions->len };
		if (!lies_in(function, stray.va))
			g_array_append_val(work->strays, stray);
	}
}

static int compare_strays(const void *a, const void *b)
{
	const struct stray *x = a, *y = b;
	return x->va < y->va ? -1 : x->va > y->va;
}

/* Assigns the blocks of a part to the function whose graph contains the part. */
static void claim_part(struct work *work, const struct vms_coverage_function *part)
{
	guint low = 0, high = work->strays->len;
	while (low < high) {
		const guint middle = low + (high - low) / 2;
		if (g_array_index(work->strays, struct stray, middle).va < part->va)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == work->strays->len)
		return;
	const struct stray *stray = &g_array_index(work->strays, struct stray, low);
	if (lies_in(part, stray->va))
		claim_blocks(work, part, stray->function);
}

static void add_function(struct work *work, const struct vms_coverage_function *function)
{
	struct vms_coverage_report *report = work->report;
	g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE, sizeof(struct range));
	append_ranges(work, function, ranges);
	merge_ranges(ranges);
	struct vms_covered_function covered = {
		.name = vms_texts_keep(report->names, function->name),
		.module = vms_texts_keep(report->names, function->module),
		.va = function->va,
		.size = function->size,
		.ran = ranges_touch(ranges, function->va, function->va + function->size),
	};
	if (covered.ran) {
		covered.n_blocks = function->n_graph;
		covered.n_ran = count_graph(work, function, ranges);
	}
	report->totals.functions++;
	report->totals.functions_ran += covered.ran;
	report->totals.blocks += covered.n_blocks;
	report->totals.blocks_ran += covered.n_ran;
	claim_blocks(work, function, report->functions->len);
	note_strays(work, function);
	g_array_append_val(report->functions, covered);
}

static int compare_functions(const void *a, const void *b)
{
	const struct vms_coverage_function *x = *(void *const *)a, *y = *(void *const *)b;
	const int modules = g_strcmp0(x->module, y->module);
	if (modules)
		return modules;
	return x->va < y->va ? -1 : x->va > y->va;
}

static void add_functions(struct work *work, const struct vms_coverage_functions *functions)
{
	const GPtrArray *all = vms_coverage_functions_all(functions);
	g_autoptr(GPtrArray) sorted = g_ptr_array_new();
	g_autoptr(GPtrArray) parts = g_ptr_array_new();
	for (guint i = 0; i < all->len; i++) {
		struct vms_coverage_function *function = g_ptr_array_index(all, i);
		const bool is_part = vms_coverage_function_is_part(function);
		g_ptr_array_add(is_part ? parts : sorted, function);
		if (is_part)
			append_ranges(work, function, work->parts);
	}
	merge_ranges(work->parts);
	if (sorted->len)
		qsort(sorted->pdata, sorted->len, sizeof(void *), compare_functions);
	for (guint i = 0; i < sorted->len; i++)
		add_function(work, g_ptr_array_index(sorted, i));
	g_array_sort(work->strays, compare_strays);
	for (guint i = 0; i < parts->len; i++)
		claim_part(work, g_ptr_array_index(parts, i));
}

static int compare_blocks(const void *a, const void *b)
{
	const struct vms_covered_block *x = a, *y = b;
	if (x->va != y->va)
		return x->va < y->va ? -1 : 1;
	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	if (x->is_whole != y->is_whole)
		return x->is_whole ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

/* Makes one block of blocks that were translated several times, in different epochs or not. */
static void merge_blocks(GArray *blocks)
{
	struct vms_covered_block *all = (void *)blocks->data;
	guint n = 0;
	g_array_sort(blocks, compare_blocks);
	for (guint i = 0; i < blocks->len; i++) {
		const bool is_again = n > 0 && all[n - 1].va == all[i].va &&
				      all[n - 1].function == all[i].function &&
				      (all[n - 1].size == all[i].size || !all[i].is_whole);
		if (!is_again)
			all[n++] = all[i];
	}
	g_array_set_size(blocks, n);
}

static void add_blocks(struct work *work)
{
	struct vms_coverage_report *report = work->report;
	for (uint32_t i = 0; i < work->n_blocks; i++) {
		const struct vms_agent_block_covered block = vms_coverage_link_block(work->link, i);
		const struct vms_covered_block covered = {
			.va = block.va,
			.size = (uint32_t)(work->end[i] - block.va),
			.is_whole = work->ran[i] & VMS_AGENT_RAN_END,
			.function = work->function[i],
		};
		if (work->ran[i])
			g_array_append_val(report->blocks, covered);
	}
	merge_blocks(report->blocks);
	for (guint i = 0; i < report->blocks->len; i++) {
		const struct vms_covered_block *block =
			&g_array_index(report->blocks, struct vms_covered_block, i);
		report->totals.nameless += block->function == VMS_COVERED_NO_FUNCTION;
		report->totals.cut += !block->is_whole;
	}
}

struct vms_coverage_report *vms_coverage_report_new(const struct vms_coverage_link *link,
						    uint32_t n_blocks,
						    struct vms_coverage_functions *functions)
{
	struct vms_coverage_report *report = g_new0(struct vms_coverage_report, 1);
	g_atomic_ref_count_init(&report->refs);
	report->names = vms_texts_new();
	report->functions = g_array_new(FALSE, FALSE, sizeof(struct vms_covered_function));
	report->blocks = g_array_new(FALSE, FALSE, sizeof(struct vms_covered_block));
	report->totals.lost = vms_coverage_link_lost(link);
	report->totals.never_began = vms_coverage_link_state(link) == VMS_AGENT_COVERAGE_WAITS;
	struct work work = {
		.link = link,
		.report = report,
		.n_blocks = n_blocks,
		.parts = g_array_new(FALSE, FALSE, sizeof(struct range)),
		.strays = g_array_new(FALSE, FALSE, sizeof(struct stray)),
	};
	work.ran = g_malloc0(work.n_blocks);
	work.function = g_new(uint32_t, work.n_blocks);
	for (uint32_t i = 0; i < work.n_blocks; i++) {
		work.ran[i] = (uint8_t)vms_coverage_link_ran(link, i);
		work.function[i] = VMS_COVERED_NO_FUNCTION;
	}
	find_ends(&work);
	add_functions(&work, functions);
	add_blocks(&work);
	g_array_unref(work.parts);
	g_array_unref(work.strays);
	g_free(work.ran);
	g_free(work.end);
	g_free(work.function);
	return report;
}

/* ---- source lines -------------------------------------------------------------------------- */

struct lines_work {
	struct vms_coverage_report *report;
	GArray *ranges;	       /* struct range: all code that ran */
	GHashTable *functions; /* address → index + 1 */
};

static void add_line(const struct vms_line_row *row, void *data)
{
	struct lines_work *work = data;
	struct vms_covered_lines *lines = work->report->lines;
	const uint32_t file = vms_covered_lines_file(lines, row->source);
	const gpointer index = g_hash_table_lookup(work->functions, &row->va);
	vms_covered_lines_add(lines, file, row->line,
			      ranges_touch(work->ranges, row->va, row->end));
	if (index)
		vms_covered_lines_place(lines, GPOINTER_TO_UINT(index) - 1, file, row->line);
}

static void index_functions(struct lines_work *work)
{
	const GArray *functions = work->report->functions;
	for (guint i = 0; i < functions->len; i++) {
		struct vms_covered_function *function =
			&g_array_index(functions, struct vms_covered_function, i);
		g_hash_table_insert(work->functions, &function->va, GUINT_TO_POINTER(i + 1));
	}
}

static void add_all_ranges(struct lines_work *work)
{
	const GArray *blocks = work->report->blocks;
	for (guint i = 0; i < blocks->len; i++) {
		const struct vms_covered_block *block =
			&g_array_index(blocks, struct vms_covered_block, i);
		const struct range range = { block->va, block->va + block->size };
		g_array_append_val(work->ranges, range);
	}
	merge_ranges(work->ranges);
}

void vms_coverage_report_add_lines(struct vms_coverage_report *report, struct vms_guest *guest)
{
	const GArray *files = vms_symbolizer_files(vms_guest_symbolizer(guest));
	struct lines_work work = {
		.report = report,
		.ranges = g_array_new(FALSE, FALSE, sizeof(struct range)),
		.functions = g_hash_table_new(vms_hash_int64, g_int64_equal),
	};
	report->lines = vms_covered_lines_new(report->functions->len);
	add_all_ranges(&work);
	index_functions(&work);
	for (guint i = 0; i < files->len; i++)
		vms_symbol_file_each_line(g_array_index(files, struct vms_symbolizer_file, i).file,
					  add_line, &work);
	vms_covered_lines_finish(report->lines);
	g_array_unref(work.ranges);
	g_hash_table_unref(work.functions);
}
