/* SPDX-License-Identifier: MIT */
/* Writes task.txt, the names of a trace's streams, and `info`, facts about the whole trace. */
#include "base/text.h"
#include "calls/directory-private.h"

#include <string.h>

#define SESSION "0000000000000000"
/* Bits in the header of `info`: features of the directory (HAS), and lines that follow (TELLS). */
#define HAS_TASK_SESSION (1 << 1)
#define HAS_SYM_REL_ADDR (1 << 5)
#define HAS_MAX_STACK	 (1 << 6)
#define TELLS_EXE_NAME	 (1 << 0)
#define TELLS_CMDLINE	 (1 << 3)
#define TELLS_CPUINFO	 (1 << 4)
#define TELLS_OSINFO	 (1 << 6)
#define TELLS_TASKINFO	 (1 << 7)

/* ---- task.txt --------------------------------------------------------- */

static int compare_tasks(const void *a, const void *b)
{
	const struct vms_calls_task *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if ((x->tid == x->pid) != (y->tid == y->pid))
		return x->tid == x->pid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Replaces slashes and quotes: uftrace takes a name from its last slash to the last quote. */
static void append_session(GString *text, uint64_t time_ns, const struct vms_calls_task *task)
{
	g_autofree char *name = g_strdup(*task->name ? task->name : "?");
	vms_text_clean(name);
	g_strdelimit(name, "/\"\\", ':');
	g_string_append_printf(
		text,
		"SESS timestamp=%" G_GUINT64_FORMAT ".%09u pid=%u sid=" SESSION " exename=\"%s\"\n",
		time_ns / 1000000000, (unsigned)(time_ns % 1000000000), task->pid, name);
}

/*
 * uftrace gives a task the name of the session that its process has when it reads the task's line.
 * So a new session comes before a thread with another name, and after the last one the process gets
 * its first name back.
 */
GString *vms_calls_tasks_text(GArray *tasks, uint64_t start_ns)
{
	GString *text = g_string_new(NULL);
	const struct vms_calls_task *first = NULL, *session = NULL;

	g_array_sort(tasks, compare_tasks);
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_calls_task *task = &g_array_index(tasks, struct vms_calls_task, i);
		bool last = i + 1 == tasks->len || task[1].pid != task->pid;
		if (!first || first->pid != task->pid)
			first = task;
		if (!session || session->pid != task->pid || strcmp(session->name, task->name) != 0)
			append_session(text, start_ns, session = task);
		g_string_append_printf(text,
				       "TASK timestamp=%" G_GUINT64_FORMAT ".%09u tid=%u pid=%u\n",
				       start_ns / 1000000000, (unsigned)(start_ns % 1000000000),
				       task->tid, task->pid);
		if (last && strcmp(session->name, first->name) != 0)
			append_session(text, start_ns, session = first);
	}
	return text;
}

/* ---- info ------------------------------------------------------------- */

struct header {
	char magic[8];
	uint32_t version;
	uint16_t size;
	uint8_t endian, class;
	uint64_t features, tells;
	uint16_t max_stack;
	uint8_t unused[6];
};

static void append_fact(GString *text, const char *key, const char *value)
{
	g_autofree char *clean = g_strdup(value ? value : "unknown");
	vms_text_clean(clean);
	g_string_append_printf(text, "%s%s\n", key, clean);
}

GString *vms_calls_info_text(const struct vms_calls_about *about, const GArray *tasks,
			     unsigned max_stack)
{
	G_STATIC_ASSERT(sizeof(struct header) == 40);
	const struct header header = {
		.magic = "Ftrace!",
		.version = GUINT32_TO_LE(4),
		.size = GUINT16_TO_LE(sizeof(header)),
		.endian = 1, /* little */
		.class = 2,  /* 64 bits */
		.features = GUINT64_TO_LE(HAS_TASK_SESSION | HAS_SYM_REL_ADDR | HAS_MAX_STACK),
		.tells = GUINT64_TO_LE(TELLS_EXE_NAME | TELLS_CMDLINE | TELLS_OSINFO |
				       TELLS_TASKINFO | (about->cpus ? TELLS_CPUINFO : 0)),
		.max_stack = GUINT16_TO_LE((uint16_t)max_stack),
	};
	GString *text = g_string_new_len((const char *)&header, sizeof(header));

	g_string_append(text, "exename:guest\n");
	append_fact(text, "cmdline:", about->command);
	if (about->cpus)
		g_string_append_printf(
			text,
			"cpuinfo:lines=2\ncpuinfo:nr_cpus=%u / %u (online/possible)\n"
			"cpuinfo:desc=virtual\n",
			about->cpus, about->cpus);
	g_string_append(text, "osinfo:lines=3\n");
	append_fact(text, "osinfo:kernel=", about->kernel);
	append_fact(text, "osinfo:hostname=", about->hostname);
	append_fact(text, "osinfo:distro=", about->distro);
	g_string_append_printf(text,
			       "taskinfo:lines=2\ntaskinfo:nr_tid=%u\ntaskinfo:tids=", tasks->len);
	for (guint i = 0; i < tasks->len; i++)
		g_string_append_printf(text, "%s%u", i ? "," : "",
				       g_array_index(tasks, struct vms_calls_task, i).tid);
	g_string_append_c(text, '\n');
	return text;
}
