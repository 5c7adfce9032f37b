/* SPDX-License-Identifier: MIT */
#include "machine/host/thread_ids.h"

#include "machine/host/proc_path.h"
#include <stdbool.h>
#include <string.h>

uint64_t vms_host_parse_own_id(const char *status)
{
	static const char key[] = "\nNSpid:";
	/* The ids in all namespaces from ours down to the thread's. */
	const char *line = strstr(status, key);
	uint64_t id = 0;
	for (const char *at = line ? line + strlen(key) : "\n"; *at && *at != '\n';) {
		if (!g_ascii_isdigit(*at)) {
			at++;
			continue;
		}
		char *end;
		id = g_ascii_strtoull(at, &end, 10);
		at = end;
	}
	return id;
}

/* True if the thread that we know by `tid` calls itself `own_id`. */
static bool has_own_id(pid_t pid, const char *tid, uint64_t own_id)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/task/%s/status", (int)pid, tid);
	g_autofree char *status = NULL;
	if (!g_file_get_contents(path, &status, NULL, NULL))
		return false;
	const uint64_t id = vms_host_parse_own_id(status);
	return id ? id == own_id : g_ascii_strtoull(tid, NULL, 10) == own_id;
}

pid_t vms_host_find_thread(pid_t pid, uint64_t own_id)
{
	g_autofree char *same = g_strdup_printf("%" G_GUINT64_FORMAT, own_id);
	if (own_id <= G_MAXINT && has_own_id(pid, same, own_id))
		return (pid_t)own_id;
	g_autofree char *path = vms_host_process_path(pid, "task");
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	const char *tid;
	while (directory && (tid = g_dir_read_name(directory)))
		if (has_own_id(pid, tid, own_id))
			return (pid_t)g_ascii_strtoull(tid, NULL, 10);
	return 0;
}
