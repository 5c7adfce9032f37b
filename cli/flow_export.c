/* SPDX-License-Identifier: MIT */
#include "flow_export.h"
#include "streams.h"

/* Finds the stack among the keys. False if there is none. */
static bool find_stack(const struct flow_tables *tables, size_t *ret)
{
	for (guint i = 0; tables && i < tables->keys->len; i++) {
		const struct flow_key *key = &g_array_index(tables->keys, struct flow_key, i);
		if (key->is_function ||
		    vms_probe_entry_kind(tables->key, key->entry) != VMS_ENTRY_STACK)
			continue;
		*ret = key->entry;
		return true;
	}
	return false;
}

/* The first format shows the report of a run, which hits do not have. Hits have no times either. */
static bool is_for_hits(const struct vms_exporter *format)
{
	size_t n;
	return format != vms_exporters(&n)[0] && !format->needs_times;
}

/* Returns the format of an output. NULL if its name has none, or one that cannot show hits. */
static const struct vms_exporter *choose_format(const struct flow_export *export, const char *path)
{
	const struct vms_exporter *format =
		export->format ? export->format : vms_exporter_by_path(path);
	return is_for_hits(format) ? format : NULL;
}

/* Returns the formats of hits, as "folded (.folded), svg (.svg)". */
static char *list_formats(void)
{
	size_t n;
	const struct vms_exporter *const *formats = vms_exporters(&n);
	GString *list = g_string_new(NULL);
	for (size_t i = 0; i < n; i++)
		if (is_for_hits(formats[i]))
			g_string_append_printf(list, "%s%s (%s)", list->len ? ", " : "",
					       formats[i]->name, formats[i]->suffix);
	return g_string_free(list, FALSE);
}

static bool check_formats(const struct session *session, const struct flow_export *export,
			  GError **error)
{
	g_autofree char *list = list_formats();
	if (export->format && !choose_format(export, "")) {
		usage_error(error,
			    "--format %s is only for samples: formats for hits by stack are %s",
			    export->format->name, list);
		return false;
	}
	if (export->format && session->outputs && session->outputs[1]) {
		usage_error(error, "--format %s: there is more than one --output",
			    export->format->name);
		return false;
	}
	for (char **path = session->outputs; path && *path; path++) {
		if (choose_format(export, *path))
			continue;
		usage_error(error, "--output %s: cannot tell the format by the name: use one of %s",
			    *path, list);
		return false;
	}
	return session_check_binary(session, export->format, error);
}

bool flow_export_prepare(const struct session *session, const struct flow_tables *tables,
			 const char *format, struct flow_export *ret, GError **error)
{
	const bool has_stack = find_stack(tables, &ret->stack);
	if (format && !(ret->format = vms_exporter_by_name(format, error)))
		return false;
	if (has_stack)
		return check_formats(session, ret, error);
	if (format || (tables && session->outputs)) {
		usage_error(error,
			    "--%s is for hits by stack, or for hits one by one: "
			    "write --count-by stack",
			    format ? "format" : "output");
		return false;
	}
	return true;
}

bool flow_export_prints(const struct session *session, const struct flow_export *export)
{
	return session->prints && export->format;
}

bool flow_export_write(struct session *session, const struct flow_export *export,
		       struct vms_flow *flow, uint64_t elapsed_ns, GError **error)
{
	g_autoptr(vms_aggregate) aggregate = vms_flow_get_aggregate(flow, error);
	g_autoptr(vms_profile) profile =
		aggregate ? vms_flow_profile_new(aggregate, export->stack, session->guest, error)
			  : NULL;
	if (!profile)
		return false;
	g_autoptr(vms_run_facts) facts = vms_flow_profile_facts(session->guest, elapsed_ns);
	for (char **path = session->outputs; path && *path; path++)
		if (!vms_export_file(choose_format(export, *path), profile, facts, NULL, *path,
				     error))
			return false;
	if (!flow_export_prints(session, export))
		return true;
	g_autoptr(GString) out = g_string_new(NULL);
	return vms_export_text(export->format, profile, facts, NULL, out, error) &&
	       streams_print(out, error);
}
