/* SPDX-License-Identifier: MIT */
/* vmscope ps: lists the guest's threads. */
#include "base/budget.h"
#include "commands.h"
#include <string.h>

#define BYTES_OF_ROW 128 /* of output, without what is shown on demand */

/* What is shown on demand. */
enum { WITH_TIME = 1 << 0, WITH_COMMAND = 1 << 1, WITH_CGROUP = 1 << 2, WITH_CONTAINER = 1 << 3 };

static const struct {
	const char *word;
	unsigned flag;
} additions[] = { { "time", WITH_TIME },
		  { "command", WITH_COMMAND },
		  { "cgroup", WITH_CGROUP },
		  { "container", WITH_CONTAINER } };

static bool parse_with(const char *text, unsigned *ret, GError **error)
{
	g_auto(GStrv) words = g_strsplit(text ?: "", ",", -1);
	for (char **word = words; *word; word++) {
		size_t i = 0;
		while (i < G_N_ELEMENTS(additions) && strcmp(additions[i].word, *word) != 0)
			i++;
		if (i == G_N_ELEMENTS(additions)) {
			usage_error(error,
				    "--with %s: it must be some of time, command, cgroup, "
				    "container",
				    *word);
			return false;
		}
		*ret |= additions[i].flag;
	}
	return true;
}

static GArray *make_columns(unsigned with)
{
	static const struct vms_column usual[] = {
		{ "pid", VMS_COLUMN_NUMBER },	{ "tid", VMS_COLUMN_NUMBER },
		{ "ppid", VMS_COLUMN_NUMBER },	{ "state", VMS_COLUMN_TEXT },
		{ "task", VMS_COLUMN_ADDRESS }, { "comm", VMS_COLUMN_TEXT },
	};
	static const struct vms_column times[] = { { "cpu_ns", VMS_COLUMN_NUMBER },
						   { "process_cpu_ns", VMS_COLUMN_NUMBER } };
	static const struct vms_column container = { "container", VMS_COLUMN_TEXT };
	static const struct vms_column cgroup = { "cgroup", VMS_COLUMN_TEXT };
	static const struct vms_column command = { "command", VMS_COLUMN_TEXT };
	GArray *columns = g_array_new(TRUE, TRUE, sizeof(struct vms_column));
	g_array_append_vals(columns, usual, G_N_ELEMENTS(usual));
	if (with & WITH_TIME)
		g_array_append_vals(columns, times, G_N_ELEMENTS(times));
	if (with & WITH_CONTAINER)
		g_array_append_val(columns, container);
	if (with & WITH_CGROUP)
		g_array_append_val(columns, cgroup);
	if (with & WITH_COMMAND)
		g_array_append_val(columns, command);
	return columns;
}

static void clear_facts(void *facts)
{
	vms_task_facts_clear(facts);
}

static size_t count_text(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* Returns the bytes of all texts. */
static size_t count_texts(const struct vms_task_facts *facts)
{
	return count_text(facts->command) + count_text(facts->cgroup) +
	       count_text(facts->container);
}

/* Reads the facts of all tasks, in their order, if any of them is shown. */
static GArray *read_facts(struct session *session, const GArray *tasks, unsigned with)
{
	struct vms_budget *budget = vms_machine_budget(session->machine);
	GArray *all = g_array_new(FALSE, TRUE, sizeof(struct vms_task_facts));
	g_array_set_clear_func(all, clear_facts);
	if (!with)
		return g_array_set_size(all, tasks->len);
	for (guint i = 0; i < tasks->len && vms_budget_has_left(budget); i++) {
		struct vms_task_facts facts;
		vms_guest_task_facts(session->guest, &g_array_index(tasks, struct vms_task, i),
				     &facts);
		g_array_append_val(all, facts);
		vms_budget_take(budget, VMS_BUDGET_BYTES, sizeof(facts) + count_texts(&facts));
	}
	return g_array_set_size(all, tasks->len); /* of the others, nothing is known */
}

/* Sums the time of the threads of a process, those that have ended included. */
static uint64_t sum_process_time(const GArray *tasks, const GArray *facts, guint first)
{
	const uint32_t pid = g_array_index(tasks, struct vms_task, first).pid;
	uint64_t sum = g_array_index(facts, struct vms_task_facts, first).ended_cpu_ns;
	for (guint i = first; i < tasks->len && sum != UINT64_MAX; i++) {
		const uint64_t cpu_ns = g_array_index(facts, struct vms_task_facts, i).cpu_ns;
		if (g_array_index(tasks, struct vms_task, i).pid != pid)
			break;
		sum = cpu_ns == UINT64_MAX ? UINT64_MAX : sum + cpu_ns;
	}
	return sum;
}

struct row {
	const struct vms_task *task;
	const struct vms_task_facts *facts;
	uint64_t process_cpu_ns;
};

static void add_row(struct vms_table *table, unsigned with, const struct row *row)
{
	const struct vms_task *task = row->task;
	const struct vms_task_facts *facts = row->facts;
	const char state[] = { task->state, '\0' };
	const char *texts[3] = { 0 };
	unsigned n = 0;
	if (with & WITH_CONTAINER)
		texts[n++] = facts->container;
	if (with & WITH_CGROUP)
		texts[n++] = facts->cgroup;
	if (with & WITH_COMMAND)
		texts[n++] = facts->command;
	/* A table takes as many arguments as it has columns, and leaves the rest. */
	if (with & WITH_TIME)
		vms_table_add(table, (uint64_t)task->pid, (uint64_t)task->tid, (uint64_t)task->ppid,
			      state, task->va, task->comm, facts->cpu_ns, row->process_cpu_ns,
			      texts[0], texts[1], texts[2]);
	else
		vms_table_add(table, (uint64_t)task->pid, (uint64_t)task->tid, (uint64_t)task->ppid,
			      state, task->va, task->comm, texts[0], texts[1], texts[2]);
}

/* False if the output is as long as may be: the guest says how many tasks there are. */
static bool has_room(struct session *session, const struct row *row)
{
	struct vms_budget *budget = vms_machine_budget(session->machine);
	const uint64_t bytes = BYTES_OF_ROW + count_texts(row->facts);
	return vms_budget_take(budget, VMS_BUDGET_PRINTED, bytes) &&
	       vms_budget_take(budget, VMS_BUDGET_BYTES,
			       2 * bytes); /* of the table, and its text */
}

static void output_tasks(struct session *session, unsigned with, const GArray *tasks,
			 const GArray *facts)
{
	g_autoptr(GArray) columns = make_columns(with);
	g_autoptr(vms_table) table =
		vms_table_new((const struct vms_column *)(const void *)columns->data);
	uint64_t process_cpu_ns = 0;
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		if (i == 0 || task->pid != task[-1].pid) /* they are sorted by pid */
			process_cpu_ns = sum_process_time(tasks, facts, i);
		const struct row row = { task, &g_array_index(facts, struct vms_task_facts, i),
					 process_cpu_ns };
		if (!has_room(session, &row))
			break;
		add_row(table, with, &row);
	}
	session_table(session, table);
}

static bool list_tasks(struct session *session, unsigned with, GError **error)
{
	if (!session_open_guest(session, error) || !vms_machine_observe(session->machine, error))
		return false;
	g_autoptr(GArray) tasks = vms_guest_tasks(session->guest, &session->loss, error);
	g_autoptr(GArray) facts = tasks ? read_facts(session, tasks, with) : NULL;
	if (!vms_machine_release(session->machine, VMS_ALL_VCPUS, tasks ? error : NULL) || !tasks)
		return false;
	output_tasks(session, with, tasks, facts);
	return true;
}

static bool run_ps(struct session *session, int argc, char **argv, GError **error)
{
	g_autofree char *additions_text = NULL;
	const GOptionEntry entries[] = {
		{ "with", 0, 0, G_OPTION_ARG_STRING, &additions_text,
		  "Also show processor time, command line, control group, container or service: "
		  "some of time, command, cgroup, container",
		  "COLUMN,…" },
		{ NULL }
	};
	unsigned with = 0;
	return session_parse(session, entries, &argc, &argv, 0, 0, error) &&
	       parse_with(additions_text, &with, error) && list_tasks(session, with, error);
}

const struct command command_ps = {
	.name = "ps",
	.arguments = "",
	.summary = "Threads of the guest",
	.options = SESSION_TARGET | SESSION_JSON,
	.run = run_ps,
};
