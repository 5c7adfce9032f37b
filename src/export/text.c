/* SPDX-License-Identifier: MIT */
/*
 * The text report: what was sampled and how it went, a call tree per vCPU, the functions, and then
 * facts of the machine as the context.
 */
#include "export/export-private.h"
#include <inttypes.h>
#include <string.h>
#include <vmscope/facts.h>

#define INDENT 4

static void heading(GString *out, const char *text)
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

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- the head --------------------------------------------------------- */

static void print_guest(GString *out, const struct vms_guest *guest)
{
	const struct vms_guest_info *info = vms_guest_info(guest);
	const char *why = vms_guest_why(guest);

	g_string_append(out, "Guest:    ");
	if (vms_guest_kind(guest) == VMS_GUEST_NONE) {
		g_string_append_printf(out, "no operating system detected: %s\n",
				       why ? why : "none that is known");
		return;
	}
	g_string_append_printf(out, "%s %s %s\n", info->name, info->release ? info->release : "",
			       info->version ? info->version : "");
	if (info->hostname)
		g_string_append_printf(out, "Hostname: %s\n", info->hostname);
	if (info->unwinder)
		g_string_append_printf(out, "Stacks:   by %s\n", info->unwinder);
	if (why)
		g_string_append_printf(out, "Missing:  %s\n", why);
}

static void print_machine(GString *out, struct vms_machine *machine)
{
	const struct vms_machine_info *info = vms_machine_info(machine);

	g_string_append_printf(out, "Machine:  %s", info->description);
	if (info->name)
		g_string_append_printf(out, ", %s", info->name);
	unsigned vcpus = vms_machine_vcpus(machine);
	g_string_append_printf(out, ", %u vCPU%s", vcpus, vcpus == 1 ? "" : "s");
	if (info->pid)
		g_string_append_printf(out, ", process %d", (int)info->pid);
	g_string_append_c(out, '\n');
}

static void print_end(GString *out, struct vms_sample_report *report)
{
	const GError *error = vms_sample_report_error(report);

	g_string_append_printf(out, "Run:      %s after ",
			       vms_sample_end_text(vms_sample_report_end(report)));
	append_time(out, vms_sample_report_elapsed_ns(report));
	if (error)
		g_string_append_printf(out, ": %s", error->message);
	g_string_append_c(out, '\n');
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++) {
		enum vms_sample_failure failure = (enum vms_sample_failure)i;
		g_autofree char *reason = vms_sample_report_reason(report, failure);
		if (reason)
			g_string_append_printf(out, "Failed:   %s: %s\n",
					       vms_sample_failure_name(failure), reason);
	}
}

/* ---- trees ------------------------------------------------------------ */

/* "3 failed (2 not held, 1 torn)" */
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

/* How many kernel stacks were walked to their root, and why the others were not. */
static void print_walks(GString *out, const struct vms_sample_stats *stats)
{
	g_string_append_printf(
		out, "kernel stacks complete %.2f%% of %" PRIu64,
		percent(stats->kernel_walks_by_end[VMS_WALK_ROOT], stats->kernel_walks),
		stats->kernel_walks);
	for (unsigned i = 0; i < VMS_WALK_N_ENDS; i++)
		if (i != VMS_WALK_ROOT && stats->kernel_walks_by_end[i])
			g_string_append_printf(out, ", %" PRIu64 " %s",
					       stats->kernel_walks_by_end[i],
					       vms_walk_end_text((enum vms_walk_end)i));
}

static void print_stats(GString *out, struct vms_sample_report *report, unsigned vcpu,
			uint64_t interval_ns)
{
	struct vms_sample_stats stats;

	if (!vms_sample_report_stats(report, vcpu, &stats))
		return;
	g_string_append_printf(out, "vCPU %u: %" PRIu64 " samples, one every %" PRIu64 " us for ",
			       vcpu, stats.samples, interval_ns / 1000);
	append_time(out, vms_sample_report_elapsed_ns(report));
	g_string_append_printf(out, ", %" PRIu64 " missed, ", stats.missed);
	print_failures(out, &stats);
	g_string_append_printf(out, "\n        idle %.2f%%, ", percent(stats.idle, stats.samples));
	print_walks(out, &stats);
	g_string_append(out, "\n        held for ");
	append_time(out, stats.hold_ns_median);
	g_string_append(out, " (median), ");
	append_time(out, stats.hold_ns_p99);
	g_string_append(out, " (99th percentile), ");
	append_time(out, stats.hold_ns_max);
	g_string_append(out, " (longest)\n");
}

/* "vfs_read+0x9b (vmlinux) [0xffffffff8134d2ab] fs/read_write.c:450" */
static void print_label(GString *out, const struct vms_label *label)
{
	bool is_code = label->kind == VMS_LABEL_FUNCTION || label->kind == VMS_LABEL_ADDRESS;

	if (label->name)
		vms_export_name(out, label);
	if (label->kind == VMS_LABEL_FUNCTION && (label->module || !label->is_user))
		g_string_append_printf(out, " (%s)", label->module ? label->module : "vmlinux");
	if (is_code)
		g_string_append_printf(out, "%s[0x%" PRIx64 "]", label->name ? " " : "", label->va);
	if (label->source)
		g_string_append_printf(out, " %s:%u", label->source, label->line);
	g_string_append_c(out, '\n');
}

static void print_tree(GString *out, const struct vms_profile *profile,
		       const struct vms_profile_tree *tree, double min_percent)
{
	unsigned depth = 0;
	bool skip;

	for (uint32_t i = tree->first_root; i != VMS_NO_NODE;
	     i = vms_export_next(tree, i, skip, &depth)) {
		const struct vms_profile_node *node = &tree->nodes[i];
		double share = percent(node->total, tree->samples);
		skip = share < min_percent;
		if (skip)
			continue;
		g_string_append_printf(out, "%*s%" PRIu64 " %.2f%% ", (int)depth * INDENT, "",
				       node->total, share);
		print_label(out, vms_profile_label(profile, node->label));
	}
}

static void print_trees(GString *out, struct vms_sample_report *report,
			const struct vms_profile *profile, double min_percent)
{
	uint64_t interval_ns = vms_profile_interval_ns(profile);

	for (size_t i = 0; i < vms_profile_n_trees(profile); i++) {
		const struct vms_profile_tree *tree = vms_profile_tree_get(profile, i);
		g_autofree char *name = vms_export_tree_name(tree);
		struct vms_sample_stats stats;

		heading(out, name);
		if (tree->vcpu != VMS_ALL_VCPUS)
			print_stats(out, report, (unsigned)tree->vcpu, interval_ns);
		else
			for (unsigned vcpu = 0; vms_sample_report_stats(report, vcpu, &stats);
			     vcpu++)
				print_stats(out, report, vcpu, interval_ns);
		g_string_append_c(out, '\n');
		print_tree(out, profile, tree, min_percent);
	}
}

/* ---- functions -------------------------------------------------------- */

static int by_total(const void *a, const void *b, void *data G_GNUC_UNUSED)
{
	const struct vms_profile_function *x = *(const struct vms_profile_function *const *)a;
	const struct vms_profile_function *y = *(const struct vms_profile_function *const *)b;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x < y ? -1 : x > y; /* as they were: by self */
}

static void print_function(GString *out, const struct vms_profile *profile,
			   const struct vms_profile_function *function, uint64_t samples)
{
	g_string_append_printf(out, "%10" PRIu64 " %6.2f%% %10" PRIu64 " %6.2f%%  ", function->self,
			       percent(function->self, samples), function->total,
			       percent(function->total, samples));
	print_label(out, vms_profile_label(profile, function->label));
}

static void print_functions(GString *out, const struct vms_profile *profile, double min_percent)
{
	static const char columns[] = "      SELF              TOTAL          FUNCTION\n";
	size_t n;
	const struct vms_profile_function *functions = vms_profile_functions(profile, &n);
	g_autofree const struct vms_profile_function **sorted =
		g_new(const struct vms_profile_function *, n);
	uint64_t samples = 0;

	for (size_t i = 0; i < vms_profile_n_trees(profile); i++)
		samples += vms_profile_tree_get(profile, i)->samples;

	heading(out, "Functions by self");
	g_string_append(out, columns);
	for (size_t i = 0; i < n; i++)
		if (functions[i].self > 0 && percent(functions[i].self, samples) >= min_percent)
			print_function(out, profile, &functions[i], samples);

	for (size_t i = 0; i < n; i++)
		sorted[i] = &functions[i];
	g_qsort_with_data(sorted, (gint)n, sizeof(*sorted), by_total, NULL);
	heading(out, "Functions by total");
	g_string_append(out, columns);
	for (size_t i = 0; i < n; i++)
		if (percent(sorted[i]->total, samples) >= min_percent)
			print_function(out, profile, sorted[i], samples);
}

/* ---- facts ------------------------------------------------------------ */

static void print_fact(GString *out, struct vms_guest *guest, const char *name, const char *title)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_table) table = vms_facts_get(guest, name, &error);

	heading(out, title);
	if (table)
		vms_table_text(table, out);
	else
		g_string_append_printf(out, "not available: %s\n", error->message);
}

static void print_facts(GString *out, struct vms_guest *guest, const char *const *wanted)
{
	g_autoptr(GArray) facts = vms_facts_list(guest);

	for (guint i = 0; i < facts->len; i++) {
		const struct vms_fact *fact = &g_array_index(facts, struct vms_fact, i);
		if (wanted ? g_strv_contains(wanted, fact->name) : fact->in_report)
			print_fact(out, guest, fact->name, fact->title);
	}
}

/* Does every wanted item exist? Sampling took its time: nothing is left out without a word. */
static void note_unknown_facts(GString *out, struct vms_guest *guest, const char *const *wanted)
{
	g_autoptr(GArray) facts = vms_facts_list(guest);

	for (; wanted && *wanted; wanted++) {
		bool known = false;
		for (guint i = 0; i < facts->len && !known; i++)
			known = strcmp(g_array_index(facts, struct vms_fact, i).name, *wanted) == 0;
		if (!known)
			print_fact(out, guest, *wanted, *wanted);
	}
}

/* ---- the report ------------------------------------------------------- */

bool vms_export_text(struct vms_sample_report *report, const struct vms_profile *profile,
		     const struct vms_export_options *options, GString *out, GError **error)
{
	struct vms_guest *guest = vms_sample_report_guest(report);
	unsigned by_function = options->profile_flags & ~(unsigned)VMS_PROFILE_BY_ADDRESS;
	g_autoptr(vms_profile) functions = vms_sample_report_profile(report, by_function, error);

	if (!functions)
		return false;
	g_string_append_printf(out, "%s\n\n", vms_profile_title(profile));
	print_machine(out, vms_guest_machine(guest));
	print_guest(out, guest);
	print_end(out, report);
	bool merged = options->profile_flags & VMS_PROFILE_MERGE_VCPUS;
	g_string_append_printf(out, "Trees:    %s, percentages of %s samples\n",
			       vms_profile_leaf_first(profile) ? "leaf first, its callers below it"
							       : "outermost caller first",
			       merged ? "all vCPUs'" : "a vCPU's");
	if (options->min_percent > 0)
		g_string_append_printf(out, "Left out: what has less than %g%%\n",
				       options->min_percent);
	print_trees(out, report, profile, options->min_percent);
	print_functions(out, functions, options->min_percent);
	print_facts(out, guest, options->facts);
	note_unknown_facts(out, guest, options->facts);
	return true;
}
