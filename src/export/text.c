/* SPDX-License-Identifier: MIT */
/*
 * The text report: the machine and the run, a call tree per vCPU, the functions, and facts of
 * the machine.
 */
#include "export/export-private.h"
#include <inttypes.h>
#include <string.h>

#define INDENT 4

static void print_heading(GString *out, const char *text)
{
	g_string_append_printf(out, "\n%s\n", text);
	for (size_t i = 0; i < strlen(text); i++)
		g_string_append_c(out, '-');
	g_string_append_c(out, '\n');
}

static void append_time(GString *out, uint64_t ns)
{
	if (ns < 1000000)
		g_string_append_printf(out, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		g_string_append_printf(out, "%.2f ms", (double)ns / 1e6);
	else
		g_string_append_printf(out, "%.2f s", (double)ns / 1e9);
}

static double get_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- the head --------------------------------------------------------- */

static void print_guest(GString *out, const struct vms_run_facts *facts)
{
	g_string_append(out, "Guest:    ");
	if (!facts->system) {
		g_string_append_printf(out, "no operating system detected: %s\n",
				       facts->why ? facts->why : "none that is known");
		return;
	}
	g_string_append_printf(out, "%s %s %s\n", facts->system,
			       facts->release ? facts->release : "",
			       facts->version ? facts->version : "");
	if (facts->hostname)
		g_string_append_printf(out, "Hostname: %s\n", facts->hostname);
	if (facts->unwinder)
		g_string_append_printf(out, "Stacks:   by %s\n", facts->unwinder);
	if (facts->why)
		g_string_append_printf(out, "Missing:  %s\n", facts->why);
	if (facts->left_out)
		g_string_append_printf(out, "Left out: %s\n", facts->left_out);
}

static void print_machine(GString *out, const struct vms_run_facts *facts)
{
	g_string_append_printf(out, "%s  %s", facts->is_host ? "Host:   " : "Machine:",
			       facts->machine_description);
	if (facts->machine_name)
		g_string_append_printf(out, ", %s", facts->machine_name);
	if (!facts->is_host)
		g_string_append_printf(out, ", %u vCPU%s", facts->n_vcpus,
				       facts->n_vcpus == 1 ? "" : "s");
	if (facts->pid)
		g_string_append_printf(out, ", process %d", (int)facts->pid);
	g_string_append_c(out, '\n');
}

static void print_end(GString *out, const struct vms_run_facts *facts)
{
	g_string_append_printf(out, "Run:      %s after ", vms_sample_end_text(facts->end));
	append_time(out, facts->elapsed_ns);
	if (facts->error)
		g_string_append_printf(out, ": %s", facts->error);
	g_string_append_c(out, '\n');
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		if (facts->reasons[i])
			g_string_append_printf(out, "Failed:   %s: %s\n",
					       vms_sample_failure_name((enum vms_sample_failure)i),
					       facts->reasons[i]);
}

/* ---- trees ------------------------------------------------------------ */

/* Prints text like "3 failed (2 could not be held, 1 released too early)". */
static void print_failures(GString *out, const struct vms_sample_stats *stats)
{
	uint64_t failed = 0;
	const char *separator = " (";

	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		failed += stats->failed[i];
	g_string_append_printf(out, "%" PRIu64 " failed", failed);
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++) {
		if (stats->failed[i] == 0)
			continue;
		g_string_append_printf(out, "%s%" PRIu64 " %s", separator, stats->failed[i],
				       vms_sample_failure_name((enum vms_sample_failure)i));
		separator = ", ";
	}
	g_string_append(out, failed ? ")" : "");
}

/* Prints how many kernel stacks were walked to their root, and why the others were not. */
static void print_walks(GString *out, const struct vms_sample_stats *stats)
{
	g_string_append_printf(
		out, "kernel stacks complete %.2f%% of %" PRIu64,
		get_percent(stats->kernel_walks_by_end[VMS_WALK_ROOT], stats->kernel_walks),
		stats->kernel_walks);
	for (unsigned i = 0; i < VMS_WALK_N_ENDS; i++)
		if (i != VMS_WALK_ROOT && stats->kernel_walks_by_end[i])
			g_string_append_printf(out, ", %" PRIu64 " %s",
					       stats->kernel_walks_by_end[i],
					       vms_walk_end_text((enum vms_walk_end)i));
}

static void print_stats(GString *out, const struct vms_run_facts *facts, unsigned vcpu)
{
	const struct vms_sample_stats *stats = &facts->vcpus[vcpu];

	g_string_append_printf(out, "vCPU %u: %" PRIu64 " samples, one every %" PRIu64 " %s for ",
			       vcpu, stats->samples,
			       facts->interval_instructions ? facts->interval_instructions
							    : facts->interval_ns / 1000,
			       facts->interval_instructions ? "instructions" : "us");
	append_time(out, facts->elapsed_ns);
	g_string_append_printf(out, ", %" PRIu64 " missed, ", stats->missed);
	print_failures(out, stats);
	g_string_append_printf(out, "\n        idle %.2f%%, ",
			       get_percent(stats->idle, stats->samples));
	print_walks(out, stats);
	g_string_append(out, "\n        held for ");
	append_time(out, stats->hold_ns_median);
	g_string_append(out, " (median), ");
	append_time(out, stats->hold_ns_p99);
	g_string_append(out, " (99th percentile), ");
	append_time(out, stats->hold_ns_max);
	g_string_append(out, " (longest)\n");
}

/* Prints a line like "vfs_read+0x9b (vmlinux) [0xffffffff8134d2ab] fs/read_write.c:450". */
static void print_label(GString *out, const struct vms_label *label)
{
	bool is_code = label->kind == VMS_LABEL_FUNCTION || label->kind == VMS_LABEL_ADDRESS;

	if (label->name)
		vms_export_append_name(out, label);
	if (label->kind == VMS_LABEL_FUNCTION && (label->module || !label->is_user))
		g_string_append_printf(out, " (%s)", label->module ? label->module : "vmlinux");
	if (is_code)
		g_string_append_printf(out, "%s[0x%" PRIx64 "]", label->name ? " " : "", label->va);
	if (label->source)
		g_string_append_printf(out, " %s:%u", label->source, label->line);
	g_string_append_c(out, '\n');
}

static void print_tree(struct vms_export_sink *sink, const struct vms_profile *profile,
		       const struct vms_profile_tree *tree, double min_percent)
{
	GString *out = sink->text;
	unsigned depth = 0;
	bool skip;

	for (uint32_t i = tree->first_root; i != VMS_NO_NODE;
	     i = vms_export_next(tree, i, skip, &depth)) {
		const struct vms_profile_node *node = &tree->nodes[i];
		double share = get_percent(node->total, tree->samples);
		skip = share < min_percent;
		if (skip)
			continue;
		g_string_append_printf(out, "%*s%" PRIu64 " %.2f%% ", (int)depth * INDENT, "",
				       node->total, share);
		print_label(out, vms_profile_label(profile, node->label));
		if (!vms_export_drain(sink))
			break;
	}
}

static void print_trees(struct vms_export_sink *sink, const struct vms_run_facts *facts,
			const struct vms_profile *profile, double min_percent)
{
	GString *out = sink->text;
	size_t n;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);

	for (size_t i = 0; i < n; i++) {
		const struct vms_profile_tree *tree = &trees[i];
		g_autofree char *name = facts->is_host && tree->vcpu == VMS_ALL_VCPUS
						? g_strdup("all CPUs")
						: vms_export_tree_name(tree);

		print_heading(out, name);
		for (unsigned vcpu = 0; !facts->is_host && vcpu < facts->n_vcpus; vcpu++)
			if (tree->vcpu == VMS_ALL_VCPUS || tree->vcpu == (int)vcpu)
				print_stats(out, facts, vcpu);
		g_string_append_c(out, '\n');
		print_tree(sink, profile, tree, min_percent);
	}
}

/* ---- functions -------------------------------------------------------- */

static int compare_totals(const void *a, const void *b, void *data G_GNUC_UNUSED)
{
	const struct vms_profile_function *x = *(const struct vms_profile_function *const *)a;
	const struct vms_profile_function *y = *(const struct vms_profile_function *const *)b;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x < y ? -1 : x > y; /* keeps the order by self */
}

static void print_function(GString *out, const struct vms_profile *profile,
			   const struct vms_profile_function *function, uint64_t samples)
{
	g_string_append_printf(out, "%10" PRIu64 " %6.2f%% %10" PRIu64 " %6.2f%%  ", function->self,
			       get_percent(function->self, samples), function->total,
			       get_percent(function->total, samples));
	print_label(out, vms_profile_label(profile, function->label));
}

static void print_functions(struct vms_export_sink *sink, const struct vms_profile *profile,
			    double min_percent)
{
	GString *out = sink->text;
	static const char columns[] = "      SELF              TOTAL          FUNCTION\n";
	size_t n, n_trees;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n_trees);
	const struct vms_profile_function *functions = vms_profile_functions(profile, &n);
	g_autofree const struct vms_profile_function **sorted =
		g_new(const struct vms_profile_function *, n);
	uint64_t samples = 0;

	for (size_t i = 0; i < n_trees; i++)
		samples += trees[i].samples;

	print_heading(out, "Functions by self");
	g_string_append(out, columns);
	for (size_t i = 0; i < n && vms_export_drain(sink); i++)
		if (functions[i].self > 0 && get_percent(functions[i].self, samples) >= min_percent)
			print_function(out, profile, &functions[i], samples);

	for (size_t i = 0; i < n; i++)
		sorted[i] = &functions[i];
	g_qsort_with_data(sorted, (gint)n, sizeof(*sorted), compare_totals, NULL);
	print_heading(out, "Functions by total");
	g_string_append(out, columns);
	for (size_t i = 0; i < n && vms_export_drain(sink); i++)
		if (get_percent(sorted[i]->total, samples) >= min_percent)
			print_function(out, profile, sorted[i], samples);
}

/* ---- the report ------------------------------------------------------- */

static void print_item(GString *out, const struct vms_run_item *item)
{
	print_heading(out, item->title);
	if (item->table)
		vms_table_text(item->table, out);
	if (item->error)
		g_string_append_printf(out, "%s: %s\n",
				       item->table ? "incomplete" : "not available", item->error);
}

static bool is_merged(const struct vms_profile *profile)
{
	size_t n;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);

	return n == 1 && trees[0].vcpu == VMS_ALL_VCPUS;
}

static void write_text(const struct vms_profile *profile, const struct vms_run_facts *facts,
		       const struct vms_export_options *options, struct vms_export_sink *sink)
{
	GString *out = sink->text;

	g_string_append_printf(out, "%s\n\n", facts->title);
	print_machine(out, facts);
	if (!facts->is_host || facts->system)
		print_guest(out, facts);
	print_end(out, facts);
	g_string_append_printf(out, "Trees:    %s, percentages of %s samples\n",
			       vms_profile_leaf_first(profile) ? "leaf first, its callers below it"
							       : "outermost caller first",
			       facts->is_host	    ? "all CPUs'"
			       : is_merged(profile) ? "all vCPUs'"
						    : "a vCPU's");
	if (options->min_percent > 0)
		g_string_append_printf(out, "Left out: what has less than %g%%\n",
				       options->min_percent);
	print_trees(sink, facts, profile, options->min_percent);
	print_functions(sink, profile, options->min_percent);
	for (guint i = 0; i < facts->items->len; i++)
		print_item(out, &g_array_index(facts->items, struct vms_run_item, i));
}

const struct vms_exporter vms_exporter_text = {
	.name = "text",
	.suffix = ".txt",
	.help = "call trees and functions, then facts of the machine",
	.shows_items = true,
	.write = write_text,
};
