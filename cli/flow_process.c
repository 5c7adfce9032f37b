/* SPDX-License-Identifier: MIT */
#include "flow_process.h"
#include "find_task.h"
#include "guest/processes.h"
#include "values.h"
#include <string.h>
#include <vmscope/log.h>

#define COMM_LENGTH 15 /* of a name that the kernel keeps */

bool flow_process_parse(const char *text, struct flow_process *ret, GError **error)
{
	*ret = (struct flow_process) { 0 };
	if (value_in_c(text, &ret->pid))
		return true;
	ret->name = text;
	if (*text && !g_ascii_isdigit(*text) && !strchr(text, '/'))
		return true;
	usage_error(error,
		    "--task %s: a pid, or the name of a process as \"vmscope ps\" shows it, is "
		    "needed",
		    text);
	return false;
}

/* Finds the processes of a name. Returns how many there are; `*ret` is the first one. */
static unsigned find_named(const GArray *tasks, const char *name, struct vms_task *ret)
{
	unsigned n = 0;
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		if (task->tid != task->pid || !task->mm ||
		    strncmp(task->comm, name, COMM_LENGTH) != 0)
			continue;
		if (n++ == 0)
			*ret = *task;
	}
	return n;
}

static bool find_by_name(struct session *session, struct flow_process *process, GError **error)
{
	g_autoptr(GError) loss = NULL;
	g_autoptr(GArray) tasks = vms_guest_tasks(session->guest, &loss, error);
	if (!tasks)
		return false;
	const unsigned n = find_named(tasks, process->name, &process->task);
	if (n == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no process of this guest is called \"%s\": --pending waits for one, "
			    "and \"vmscope ps\" lists them",
			    process->name);
		return false;
	}
	process->pid = process->task.pid;
	if (n > 1)
		vms_log(VMS_LOG_WARNING,
			"%u processes are called \"%s\": only %u is probed; --task PID chooses "
			"another",
			n, process->name, process->task.pid);
	return true;
}

bool flow_process_find(struct session *session, struct flow_process *process, GError **error)
{
	process->space = NULL;
	process->is_there = process->name
				    ? find_by_name(session, process, error)
				    : find_task(session, (unsigned)MIN(process->pid, G_MAXUINT),
						&process->task, error);
	if (!process->is_there)
		return false;
	process->space = vms_guest_process(session->guest, &process->task);
	process->stamp = vms_guest_mappings_stamp(session->guest, process->task.mm);
	return true;
}

bool flow_process_check(struct session *session, struct flow_process *process, bool *is_other)
{
	const struct vms_task *task = &process->task;
	const bool was_there = process->is_there;
	const uint64_t pid = task->pid, mm = task->mm;
	*is_other = false;
	if (was_there && vms_guest_task_has(session->guest, task->va, task->pid, task->mm)) {
		const uint64_t before = process->stamp;
		process->stamp = vms_guest_mappings_stamp(session->guest, task->mm);
		return !process->stamp || process->stamp != before; /* 0: it does not tell */
	}
	const bool found = flow_process_find(session, process, NULL);
	*is_other = found != was_there || (found && (task->pid != pid || task->mm != mm));
	return *is_other;
}
