/* SPDX-License-Identifier: MIT */
/* Facts that no machine has. Takes the place of the library's in the programs that link it. */
#include <string.h>
#include <vmscope/facts.h>

GArray *vms_facts_list(struct vms_guest *guest G_GNUC_UNUSED)
{
	static const struct vms_fact facts[] = {
		{ "colour", "What colour it is", "", true },
		{ "weight", "How much it weighs", "", false },
		{ "age", "How old it is", "", true },
	};
	GArray *list = g_array_new(FALSE, FALSE, sizeof(struct vms_fact));
	g_array_append_vals(list, facts, G_N_ELEMENTS(facts));
	return list;
}

struct vms_table *vms_facts_get(struct vms_guest *guest G_GNUC_UNUSED, const char *name,
				GError **loss, GError **error)
{
	static const struct vms_column columns[] = { { "what", VMS_COLUMN_TEXT }, { NULL } };

	if (strcmp(name, "weight") == 0)
		g_set_error(loss, VMS_ERROR, VMS_ERROR_UNREADABLE, "its feet are not weighed");
	if (strcmp(name, "colour") != 0 && strcmp(name, "weight") != 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "nobody knows the %s", name);
		return NULL;
	}
	struct vms_table *table = vms_table_new(columns);
	vms_table_add(table, name[0] == 'c' ? "green" : "heavy");
	return table;
}
