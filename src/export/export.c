/* SPDX-License-Identifier: MIT */
#include "base/outfile.h"
#include "export/export-private.h"
#include <inttypes.h>
#include <string.h>
#include <vmscope/machine.h>

static const char *const format_names[] = {
	[VMS_FORMAT_TEXT] = "text",
	[VMS_FORMAT_FOLDED] = "folded",
	[VMS_FORMAT_SVG] = "svg",
};

bool vms_format_by_name(const char *name, enum vms_format *ret, GError **error)
{
	for (size_t i = 0; i < G_N_ELEMENTS(format_names); i++) {
		if (strcmp(name, format_names[i]) == 0) {
			*ret = (enum vms_format)i;
			return true;
		}
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "there is no format called \"%s\": choose text, folded or svg", name);
	return false;
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

GString *vms_export(struct vms_sample_report *report, enum vms_format format,
		    const struct vms_export_options *options, GError **error)
{
	g_autoptr(vms_profile) profile =
		vms_sample_report_profile(report, options->profile_flags, error);
	if (!profile)
		return NULL;

	GString *out = g_string_new(NULL);
	bool done = true;
	switch (format) {
	case VMS_FORMAT_TEXT: done = vms_export_text(report, profile, options, out, error); break;
	case VMS_FORMAT_FOLDED: vms_export_folded(report, profile, out); break;
	case VMS_FORMAT_SVG: vms_export_flamegraph(profile, out); break;
	}
	if (!done) {
		g_string_free(out, TRUE);
		return NULL;
	}
	return out;
}

bool vms_export_file(struct vms_sample_report *report, enum vms_format format,
		     const struct vms_export_options *options, const char *path, GError **error)
{
	GString *text = vms_export(report, format, options, error);
	if (!text)
		return false;
	g_autoptr(vms_outfile) file = vms_outfile_open(path, error);
	bool done = file && vms_outfile_write(file, text->str, text->len, error) &&
		    vms_outfile_commit(file, error);
	g_string_free(text, TRUE);
	return done;
}
