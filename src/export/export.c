/* SPDX-License-Identifier: MIT */
#include "base/options.h"
#include "base/outfile.h"
#include "export/export-private.h"
#include "export/formats.h" /* meson.build makes it: VMS_EXPORT_FORMATS */
#include <inttypes.h>
#include <string.h>
#include <vmscope/machine.h>

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

const struct vms_exporter *vms_exporter_by_path(const char *path)
{
	for (size_t i = 0; i < G_N_ELEMENTS(exporters); i++)
		if (g_str_has_suffix(path, exporters[i]->suffix))
			return exporters[i];
	return exporters[0];
}

void vms_export_name(GString *out, const struct vms_label *label)
{
	if (!label->name)
		g_string_append_printf(out, "0x%" PRIx64, label->va);
	else if (label->offset)
		g_string_append_printf(out, "%s+0x%" PRIx64, label->name, label->offset);
	else
		g_string_append(out, label->name);
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

bool vms_export_text(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     GString *out, GError **error)
{
	struct vms_export_options own;

	if (!vms_options_copy(options, &own, sizeof(own), "vms_export_options", error))
		return false;
	exporter->write(profile, facts, &own, out);
	return true;
}

bool vms_export_file(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     const char *path, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);

	if (!vms_export_text(exporter, profile, facts, options, text, error))
		return false;
	g_autoptr(vms_outfile) file = vms_outfile_open(path, error);
	return file && vms_outfile_write(file, text->str, text->len, error) &&
	       vms_outfile_commit(file, error);
}
