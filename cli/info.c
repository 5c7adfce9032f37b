/* SPDX-License-Identifier: MIT */
/* vmscope info: shows facts of a machine and its guest. */
#include "commands.h"
#include <string.h>

static void list_items(struct session *session, GArray *facts)
{
	static const struct vms_column columns[] = { { "item", VMS_COLUMN_TEXT },
						     { "help", VMS_COLUMN_TEXT },
						     { NULL } };
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (size_t i = 0; i < facts->len; i++) {
		const struct vms_fact *fact = &g_array_index(facts, struct vms_fact, i);
		vms_table_add(table, fact->name, fact->help);
	}
	session_table(session, table);
}

static const char *find_title(GArray *facts, const char *name)
{
	for (size_t i = 0; i < facts->len; i++) {
		const struct vms_fact *fact = &g_array_index(facts, struct vms_fact, i);
		if (strcmp(fact->name, name) == 0)
			return fact->title;
	}
	return name;
}

/* Adds an item. JSON has the items as members of one object. Text has a heading for each. */
static bool add_item(struct session *session, GArray *facts, const char *name, bool first,
		     GError **error)
{
	GError *loss = NULL;
	g_autoptr(vms_table) table = vms_facts_get(session->guest, name, &loss, error);
	if (!table)
		return false;
	if (loss)
		session_note_loss(session, loss);
	if (session->json)
		g_string_append_printf(session->out, "%s\"%s\": ", first ? "{\n" : ",\n", name);
	else
		g_string_append_printf(session->out, "%s%s\n", first ? "" : "\n",
				       find_title(facts, name));
	session_table(session, table);
	return true;
}

static bool run_info(struct session *session, int argc, char **argv, GError **error)
{
	const char *const standard[] = { "os", "cpus", "memory" };
	if (!session_parse(session, NULL, &argc, &argv, 0, -1, error))
		return false;
	bool help = argc == 2 && strcmp(argv[1], "help") == 0;
	bool needs_machine = !help || session_names_target(session);
	if (needs_machine && !session_open_guest(session, error))
		return false;
	g_autoptr(GArray) facts = vms_facts_list(session->guest);
	if (help) {
		list_items(session, facts);
		return true;
	}
	const char *const *items = argc > 1 ? (const char *const *)argv + 1 : standard;
	size_t n = argc > 1 ? (size_t)argc - 1 : G_N_ELEMENTS(standard);
	for (size_t i = 0; i < n; i++) {
		if (!add_item(session, facts, items[i], i == 0, error))
			return false;
	}
	if (session->json)
		g_string_append(session->out, "}\n");
	return true;
}

const struct command command_info = {
	.name = "info",
	.arguments = "[ITEM…]",
	.summary = "Facts of a machine and its guest (\"info help\" lists the items)",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run_info,
};
