/* SPDX-License-Identifier: MIT */
/* Comparisons of profiles, with counts and intervals worked out by hand. */
#include "profile_trees.h"
#include "sample/profile-private.h"
#include <string.h>
#include <vmscope/comparison.h>
#include <vmscope/export.h>

#define FUNCTION(i) (UINT64_C(0xffff800000001000) + (uint64_t)(i)*0x100)

/* One of two runs, whose kernels have the same functions at other addresses. */
struct run {
	struct vms_symbolizer *symbolizer;
	struct vms_tree *tree;
	uint64_t bias;
	struct vms_profile *profile;
};

static const char *const functions[] = { "read", "write", "copy" };
enum { READ, WRITE, COPY };

static struct run *make_run(uint64_t bias)
{
	struct run *run = g_new0(struct run, 1);
	const struct vms_process process = { .pid = 10 + (uint32_t)bias, .comm = "prog" };
	run->symbolizer = vms_symbolizer_new();
	run->tree = vms_tree_new(1000);
	run->bias = bias;
	vms_symbolizer_add_space(run->symbolizer, &process);
	for (unsigned i = 0; i < G_N_ELEMENTS(functions); i++) {
		g_autoptr(vms_symbol_table) table = vms_symbol_table_new("vmlinux");
		const uint64_t va = FUNCTION(i) + bias;
		vms_symbol_table_add(table, functions[i], va, 0x100, 't');
		vms_symbol_table_finish(table, va + 0x100);
		const struct vms_mapping mapping = { .start = va,
						     .end = va + 0x100,
						     .offset = va,
						     .symbols = table,
						     .kind = VMS_MAPPING_KERNEL };
		vms_symbolizer_map(run->symbolizer, VMS_KERNEL_SPACE, &mapping);
	}
	return run;
}

/* Adds `n` samples of a stack, outermost first, which ends with -1. */
static void add(struct run *run, bool has_process, uint64_t n, const int *stack)
{
	struct vms_tree_key path[8];
	size_t length = 0;
	if (has_process)
		path[length++] = (struct vms_tree_key) { 0, VMS_TREE_PROCESS, 0 };
	for (; *stack >= 0; stack++)
		path[length++] = (struct vms_tree_key) { FUNCTION(*stack) + run->bias, VMS_TREE_PC,
							 VMS_KERNEL_SPACE };
	vms_tree_add(run->tree, path, length, n);
}
#define ADD(run, has_process, n, ...) add(run, has_process, n, (const int[]) { __VA_ARGS__, -1 })

static const struct vms_profile *finish(struct run *run, bool leaf_first)
{
	const struct vms_tree *const trees[] = { run->tree };
	const struct vms_profile_source source = { .symbolizer = run->symbolizer,
						   .trees = trees,
						   .n_trees = 1,
						   .flags = VMS_PROFILE_BY_COMM |
							    VMS_PROFILE_MERGE_VCPUS,
						   .leaf_first = leaf_first };
	run->profile = vms_profile_new(&source);
	return run->profile;
}

static void free_run(struct run *run)
{
	vms_profile_free(run->profile);
	vms_tree_free(run->tree);
	vms_symbolizer_unref(run->symbolizer);
	g_free(run);
}

static const struct vms_compared_function *find(const struct vms_comparison *comparison,
						const char *process, const char *name)
{
	size_t n;
	const struct vms_compared_function *all = vms_comparison_functions(comparison, &n);
	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i].name, name) == 0 && g_strcmp0(all[i].process, process) == 0)
			return &all[i];
	return NULL;
}

static void assert_counts(const struct vms_compared_counts *counts, uint64_t before, uint64_t after)
{
	g_assert_cmpuint(counts->before, ==, before);
	g_assert_cmpuint(counts->after, ==, after);
}

/* By name, though addresses and process ids differ; recursion counts once. */
static void test_functions(void)
{
	struct run *before = make_run(0), *after = make_run(0x5000);
	ADD(before, true, 30, READ, COPY);
	ADD(before, true, 10, READ);
	ADD(before, false, 5, WRITE);
	ADD(after, true, 60, READ, COPY, READ, COPY);
	ADD(after, true, 7, READ);
	ADD(after, true, 2, WRITE);
	g_autoptr(vms_comparison) comparison =
		vms_comparison_new(finish(before, false), finish(after, false), NULL);
	const struct vms_compared_counts samples = vms_comparison_samples(comparison);
	assert_counts(&samples, 45, 69);
	const struct vms_compared_function *function = find(comparison, "prog", "read");
	assert_counts(&function->self, 10, 7);
	assert_counts(&function->total, 40, 67);
	function = find(comparison, "prog", "copy");
	assert_counts(&function->self, 30, 60);
	assert_counts(&function->total, 30, 60);
	assert_counts(&find(comparison, NULL, "write")->self, 5, 0);
	assert_counts(&find(comparison, "prog", "write")->self, 0, 2);
	g_assert_null(find(comparison, NULL, "read"));
	free_run(before);
	free_run(after);
}

/* Nodes of the second profile have what the same stack had in the first one. */
static void test_nodes(void)
{
	struct run *before = make_run(0), *after = make_run(0x5000);
	ADD(before, true, 30, READ, COPY);
	ADD(before, true, 4, WRITE, COPY);
	ADD(after, true, 60, READ, COPY);
	ADD(after, true, 7, READ);
	g_autoptr(vms_comparison) comparison =
		vms_comparison_new(finish(before, false), finish(after, false), NULL);
	const struct vms_profile_tree *tree = get_tree(after->profile, 0);
	struct vms_compared_counts self, total;
	vms_comparison_node(comparison, 0, VMS_NO_NODE, &self, &total);
	assert_counts(&total, 34, 67);
	uint32_t node = tree->first_root; /* the process */
	vms_comparison_node(comparison, 0, node, &self, &total);
	assert_counts(&self, 0, 0);
	assert_counts(&total, 34, 67);
	node = tree->nodes[node].first_child;
	vms_comparison_node(comparison, 0, node, &self, &total);
	assert_counts(&self, 0, 7);
	assert_counts(&total, 30, 67);
	node = tree->nodes[node].first_child;
	vms_comparison_node(comparison, 0, node, &self, &total);
	assert_counts(&self, 30, 60);
	free_run(before);
	free_run(after);
}

static void test_errors(void)
{
	struct run *before = make_run(0), *after = make_run(0);
	g_autoptr(GError) error = NULL;
	ADD(before, true, 1, READ);
	ADD(after, true, 1, READ);
	g_assert_null(vms_comparison_new(finish(before, false), finish(after, true), &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	free_run(before);
	free_run(after);
}

/* A format that cannot compare refuses. */
static void test_export(void)
{
	struct run *before = make_run(0), *after = make_run(0);
	g_autoptr(GError) error = NULL;
	g_autoptr(GString) out = g_string_new(NULL);
	struct vms_run_facts facts = { .title = (char[]) { "run" } };
	ADD(before, true, 1, READ);
	ADD(after, true, 1, READ);
	g_autoptr(vms_comparison) comparison =
		vms_comparison_new(finish(before, false), finish(after, false), NULL);
	const struct vms_export_options options = { .size = sizeof(options),
						    .comparison = comparison };
	g_assert_false(vms_export_text(vms_exporter_by_name("folded", NULL), after->profile, &facts,
				       &options, out, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	g_assert_true(vms_export_text(vms_exporter_by_name("svg", NULL), after->profile, &facts,
				      &options, out, NULL));
	free_run(before);
	free_run(after);
}

/* 50 of 100 and 70 of 100: the interval is that of 51 of 102 and 71 of 102. */
static void test_share(void)
{
	const struct vms_compared_change change = vms_compared_share(
		(struct vms_compared_counts) { 50, 70 }, (struct vms_compared_counts) { 100, 100 });
	g_assert_cmpfloat_with_epsilon(change.before, 50, 1e-9);
	g_assert_cmpfloat_with_epsilon(change.after, 70, 1e-9);
	g_assert_cmpfloat_with_epsilon(change.error, 13.1844, 1e-3);
	g_assert_false(change.is_chance);
	const struct vms_compared_change none = vms_compared_share(
		(struct vms_compared_counts) { 0, 1 }, (struct vms_compared_counts) { 1, 1 });
	g_assert_cmpfloat(none.after - none.before, ==, 100);
	g_assert_true(none.is_chance); /* one sample tells nothing */
}

/* 99 samples of 2 ms, 199 of 1 ms: 198 and 199; the error is 1.96 * sqrt(100 * 4 + 200). */
static void test_rate(void)
{
	const struct vms_compared_change change =
		vms_compared_rate((struct vms_compared_counts) { 99, 199 }, 2, 1);
	g_assert_cmpfloat_with_epsilon(change.before, 198, 1e-9);
	g_assert_cmpfloat_with_epsilon(change.after, 199, 1e-9);
	g_assert_cmpfloat_with_epsilon(change.error, 48.0091, 1e-3);
	g_assert_true(change.is_chance);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/comparison/functions", test_functions);
	g_test_add_func("/comparison/nodes", test_nodes);
	g_test_add_func("/comparison/errors", test_errors);
	g_test_add_func("/comparison/export", test_export);
	g_test_add_func("/comparison/share", test_share);
	g_test_add_func("/comparison/rate", test_rate);
	return g_test_run();
}
