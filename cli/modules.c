/* SPDX-License-Identifier: MIT */
/* vmscope modules: lists the guest kernel's loaded modules. */
#include "commands.h"

static bool run_modules(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = { { "name", VMS_COLUMN_TEXT },
						     { "text", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_NUMBER },
						     { "symbols", VMS_COLUMN_NUMBER },
						     { NULL } };
	if (!session_parse(session, NULL, &argc, &argv, 0, 0, error) ||
	    !session_open_guest(session, error))
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	GError *loss = NULL;
	bool read = vms_guest_refresh_modules(session->guest, &loss);
	size_t n;
	const struct vms_module *const *modules = vms_guest_modules(session->guest, &n);
	if (!read && n == 0) {
		g_propagate_error(error, loss);
		return false;
	}
	if (!read)
		session_note_loss(session, loss);
	for (size_t i = 0; i < n; i++)
		vms_table_add(table, modules[i]->name, modules[i]->text, modules[i]->size,
			      (uint64_t)vms_symbol_table_count(modules[i]->symbols));
	session_table(session, table);
	return true;
}

const struct command command_modules = {
	.name = "modules",
	.arguments = "",
	.summary = "Loaded kernel modules",
	.options = SESSION_TARGET | SESSION_JSON,
	.run = run_modules,
};
