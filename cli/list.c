/* SPDX-License-Identifier: MIT */
/* vmscope list: the virtual machines of this host. */
#include "commands.h"

static bool run(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = {
		{ "pid", VMS_COLUMN_NUMBER },	 { "name", VMS_COLUMN_TEXT },
		{ "accel", VMS_COLUMN_TEXT },	 { "vcpus", VMS_COLUMN_NUMBER },
		{ "memory", VMS_COLUMN_BYTES },	 { "qmp", VMS_COLUMN_TEXT },
		{ "obstacle", VMS_COLUMN_TEXT }, { NULL }
	};
	if (!session_parse(session, NULL, &argc, &argv, 0, 0, error))
		return false;
	g_autoptr(GPtrArray) machines = vms_machine_discover(error);
	if (!machines)
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (size_t i = 0; i < machines->len; i++) {
		const struct vms_found_machine *found = machines->pdata[i];
		vms_table_add(table, (uint64_t)found->pid, found->name, found->accelerator,
			      (uint64_t)found->vcpus, found->memory, found->qmp, found->obstacle);
	}
	session_table(session, table);
	return true;
}

const struct command command_list = {
	.name = "list",
	.arguments = "",
	.summary = "Virtual machines of this host, and how they can be reached",
	.options = SESSION_JSON,
	.run = run,
};
