/* SPDX-License-Identifier: MIT */
#include "find_task.h"

bool find_task(struct session *session, unsigned tid, struct vms_task *ret, GError **error)
{
	g_autoptr(GError) loss = NULL;
	g_autoptr(GArray) tasks = vms_guest_tasks(session->guest, &loss, error);
	if (!tasks)
		return false;
	for (size_t i = 0; i < tasks->len; i++) {
		*ret = g_array_index(tasks, struct vms_task, i);
		if (ret->tid == tid)
			return true;
	}
	if (loss)
		g_propagate_error(error, g_steal_pointer(&loss));
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no thread %u in this guest: \"vmscope ps\" lists them", tid);
	return false;
}
