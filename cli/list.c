/* SPDX-License-Identifier: MIT */
/* vmscope list: lists the virtual machines of this host. */
#include "commands.h"

/*
 * Returns what runs in a machine, like "Linux 6.1.0", newly allocated. Returns NULL and sets
 * *obstacle if that cannot be found out.
 */
static char *detect_guest(const struct vms_found_machine *found, char **obstacle)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = vms_machine_open_pid(found->pid, &error);
	g_autoptr(vms_guest) guest = machine ? vms_guest_detect(machine, &error) : NULL;
	if (!guest) {
		*obstacle = g_strdup(error->message);
		return NULL;
	}
	const struct vms_guest_info *info = vms_guest_info(guest);
	if (vms_guest_kind(guest) == VMS_GUEST_NONE)
		return g_strdup("none detected");
	return g_strdup_printf("%s %s", info->name, info->release);
}

static bool run_list(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = {
		{ "pid", VMS_COLUMN_NUMBER },	 { "name", VMS_COLUMN_TEXT },
		{ "accel", VMS_COLUMN_TEXT },	 { "vcpus", VMS_COLUMN_NUMBER },
		{ "memory", VMS_COLUMN_BYTES },	 { "guest", VMS_COLUMN_TEXT },
		{ "qmp", VMS_COLUMN_TEXT },	 { "agent", VMS_COLUMN_TEXT },
		{ "obstacle", VMS_COLUMN_TEXT }, { NULL }
	};
	gboolean guests = FALSE;
	const GOptionEntry options[] = {
		{ "guest", 0, 0, G_OPTION_ARG_NONE, &guests,
		  "Attach to each machine for a moment to tell its operating system", NULL },
		{ NULL }
	};
	if (!session_parse(session, options, &argc, &argv, 0, 0, error))
		return false;
	g_autoptr(GArray) machines = vms_machine_discover(error);
	if (!machines)
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (size_t i = 0; i < machines->len; i++) {
		const struct vms_found_machine *found =
			&g_array_index(machines, struct vms_found_machine, i);
		g_autofree char *obstacle = g_strdup(found->obstacle);
		g_autofree char *guest =
			guests && !obstacle ? detect_guest(found, &obstacle) : NULL;
		vms_table_add(table, (uint64_t)found->pid, found->name, found->accelerator,
			      (uint64_t)found->vcpus,
			      found->memory ? found->memory : VMS_TABLE_UNKNOWN, guest, found->qmp,
			      found->agent, obstacle);
	}
	session_table(session, table);
	return true;
}

const struct command command_list = {
	.name = "list",
	.arguments = "",
	.summary = "Virtual machines of this host, and how they can be reached",
	.options = SESSION_JSON,
	.run = run_list,
};
