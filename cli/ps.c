/* SPDX-License-Identifier: MIT */
/* vmscope ps: lists the guest's threads. */
#include "commands.h"

static bool run_ps(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = { { "pid", VMS_COLUMN_NUMBER },
						     { "tid", VMS_COLUMN_NUMBER },
						     { "ppid", VMS_COLUMN_NUMBER },
						     { "state", VMS_COLUMN_TEXT },
						     { "task", VMS_COLUMN_ADDRESS },
						     { "comm", VMS_COLUMN_TEXT },
						     { NULL } };
	if (!session_parse(session, NULL, &argc, &argv, 0, 0, error) ||
	    !session_open_guest(session, error) || !vms_machine_observe(session->machine, error))
		return false;
	g_autoptr(GArray) tasks = vms_guest_tasks(session->guest, &session->loss, error);
	if (!vms_machine_release(session->machine, VMS_ALL_VCPUS, tasks ? error : NULL) || !tasks)
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (size_t i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		const char state[] = { task->state, '\0' };
		vms_table_add(table, (uint64_t)task->pid, (uint64_t)task->tid, (uint64_t)task->ppid,
			      state, task->va, task->comm);
	}
	session_table(session, table);
	return true;
}

const struct command command_ps = {
	.name = "ps",
	.arguments = "",
	.summary = "Threads of the guest",
	.options = SESSION_TARGET | SESSION_JSON,
	.run = run_ps,
};
