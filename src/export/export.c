/* SPDX-License-Identifier: MIT */
#include "base/options.h"
#include "base/outfile.h"
#include "export/export-private.h"
#include "export/formats.h" /* meson.build makes it: VMS_EXPORT_FORMATS */
#include <inttypes.h>
#include <string.h>
#include <vmscope/log.h>
#include <vmscope/machine.h>

#define GZIP_SUFFIX ".gz"

/* A new format is a file in this folder and its name in the list of the meson.build here. */
#define FORMAT(name) extern const struct vms_exporter vms_exporter_##name;
VMS_EXPORT_FORMATS
#undef FORMAT
#define FORMAT(name) &vms_exporter_##name,
static const struct vms_exporter *const exporters[] = { VMS_EXPORT_FORMATS };
#undef FORMAT

const struct vms_exporter *const *vms_exporters(size_t *n)
{
	*n = G_N_ELEMENTS(exporters);
	return exporters;
}

const struct vms_exporter *vms_exporter_by_name(const char *name, GError **error)
{
	g_autoptr(GString) names = g_string_new(NULL);

	for (size_t i = 0; i < G_N_ELEMENTS(exporters); i++) {
		if (strcmp(name, exporters[i]->name) == 0)
			return exporters[i];
		bool last = i == G_N_ELEMENTS(exporters) - 1;
		const char *separator = i == 0 ? "" : last ? " or " : ", ";
		g_string_append_printf(names, "%s%s", separator, exporters[i]->name);
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "there is no format called \"%s\": choose %s", name, names->str);
	return NULL;
}

/* Returns the format with the longest suffix that the name has, or NULL. */
static const struct vms_exporter *find_suffix(const char *name)
{
	const struct vms_exporter *found = NULL;

	for (size_t i = 0; i < G_N_ELEMENTS(exporters); i++)
		if (g_str_has_suffix(name, exporters[i]->suffix) &&
		    (!found || strlen(exporters[i]->suffix) > strlen(found->suffix)))
			found = exporters[i];
	return found;
}

static bool is_gzip_name(const char *path)
{
	return g_str_has_suffix(path, GZIP_SUFFIX);
}

const struct vms_exporter *vms_exporter_by_path(const char *path)
{
	const struct vms_exporter *found = find_suffix(path);

	if (!found && is_gzip_name(path)) {
		g_autofree char *name = g_strndup(path, strlen(path) - strlen(GZIP_SUFFIX));
		found = find_suffix(name);
	}
	return found ? found : exporters[0];
}

void vms_export_append_name(GString *out, const struct vms_label *label)
{
	if (!label->name)
		g_string_append_printf(out, "0x%" PRIx64, label->va);
	else if (label->offset)
		g_string_append_printf(out, "%s+0x%" PRIx64, label->name, label->offset);
	else
		g_string_append(out, label->name);
}

char *vms_export_file_name(const struct vms_label *label)
{
	if (label->kind != VMS_LABEL_FUNCTION && label->kind != VMS_LABEL_ADDRESS)
		return g_strdup("[vcpu]");
	if (label->is_user)
		return g_strdup(label->module ? label->module : "[unknown]");
	return label->module ? g_strdup_printf("[%s]", label->module)
			     : g_strdup("[kernel.kallsyms]");
}

char *vms_export_thread_name(const struct vms_profile_thread *thread)
{
	const char *comm = thread->comm ? thread->comm : "[unknown]";
	g_autofree char *name =
		thread->role ? g_strdup_printf("%s %s", comm, thread->role) : g_strdup(comm);
	return thread->tid == thread->pid ? g_strdup_printf("%s (%" PRIu32 ")", name, thread->pid)
					  : g_strdup_printf("%s (%" PRIu32 "/%" PRIu32 ")", name,
							    thread->pid, thread->tid);
}

size_t vms_export_count_labels(const struct vms_profile *profile)
{
	size_t n, labels = 0;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);

	for (size_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < trees[i].n_nodes; j++)
			labels = MAX(labels, (size_t)trees[i].nodes[j].label + 1);
	return labels;
}

char *vms_export_tree_name(const struct vms_profile_tree *tree)
{
	return tree->vcpu == VMS_ALL_VCPUS ? g_strdup("all vCPUs")
					   : g_strdup_printf("vCPU %d", tree->vcpu);
}

uint32_t vms_export_next(const struct vms_profile_tree *tree, uint32_t node, bool skip_children,
			 unsigned *depth)
{
	if (!skip_children && tree->nodes[node].first_child != VMS_NO_NODE) {
		++*depth;
		return tree->nodes[node].first_child;
	}
	while (tree->nodes[node].next_sibling == VMS_NO_NODE) {
		node = tree->nodes[node].parent;
		if (node == VMS_NO_NODE)
			return VMS_NO_NODE;
		--*depth;
	}
	return tree->nodes[node].next_sibling;
}

/* Warns about samples that the format leaves out. */
static void warn_about_untimed_samples(const struct vms_exporter *exporter,
				       const struct vms_profile *profile)
{
	size_t n;
	const struct vms_profile_sample *samples = vms_profile_samples(profile, &n);
	uint64_t missing = 0;

	while (n > 0 && samples[n - 1].time_ns == 0)
		missing += samples[--n].weight;
	if (missing)
		vms_log(VMS_LOG_WARNING,
			"the format %s leaves out %" PRIu64 " samples whose time is not known",
			exporter->name, missing);
}

static bool write_profile(const struct vms_exporter *exporter, const struct vms_profile *profile,
			  const struct vms_run_facts *facts,
			  const struct vms_export_options *options, struct vms_export_sink *sink,
			  GError **error)
{
	struct vms_export_options own;

	if (!vms_options_copy(options, &own, sizeof(own), "vms_export_options", error))
		return false;
	if (own.comparison && !exporter->compares) {
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			"the format %s cannot show how a profile has changed: use another format",
			exporter->name);
		return false;
	}
	if (exporter->needs_times)
		warn_about_untimed_samples(exporter, profile);
	sink->budget = own.budget;
	exporter->write(profile, facts, &own, sink);
	return vms_export_sink_finish(sink, error);
}

bool vms_export_text(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     GString *out, GError **error)
{
	g_autoptr(vms_export_sink) sink = vms_export_sink_new(out, NULL, exporter->is_gzip);
	return write_profile(exporter, profile, facts, options, sink, error);
}

bool vms_export_file(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     const char *path, GError **error)
{
	g_autoptr(vms_outfile) file = vms_outfile_open(path, error);
	if (!file)
		return false;
	g_autoptr(vms_export_sink) sink =
		vms_export_sink_new(NULL, file, exporter->is_gzip || is_gzip_name(path));
	return write_profile(exporter, profile, facts, options, sink, error) &&
	       vms_outfile_commit(file, error);
}
