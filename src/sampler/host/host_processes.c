/* SPDX-License-Identifier: MIT */
/* What /proc tells of processes of this host. */
#include "base/proc_text.h"
#include "guest/container.h"
#include "sampler/host/host_engine-private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vms_host_record_file(uint32_t number, const char *path,
			  const struct vms_file_identity *identity, void *data)
{
	const struct vms_host_engine *engine = data;
	vms_sampler_record_file(engine->sampler, number, path, identity->build_id, identity->stamp);
}

static void record_mapping(struct vms_host_engine *engine, uint64_t time_ns, pid_t pid,
			   const char *line)
{
	struct vms_proc_mapping mapping;
	char flags[5] = "";
	int at = 0;
	if (!vms_proc_parse_mapping(line, &mapping) ||
	    sscanf(line, "%*s %4s %*s %*s %*s %n", flags, &at) < 1 || flags[2] != 'x' || at == 0)
		return;
	g_autofree char *path = g_strchomp(g_strdup(line + at));
	const struct vms_foreign_name name = {
		.pid = pid,
		.start = mapping.start,
		.end = mapping.end,
		.path = path[0] ? path : "[anon]",
		.device = mapping.device,
		.inode = mapping.inode,
	};
	const uint32_t file = vms_host_files_number(engine->files, &name);
	vms_sampler_record_mapping(engine->sampler, time_ns, (uint32_t)pid, mapping.start,
				   mapping.end, mapping.file_offset, file);
}

char *vms_host_read_proc(pid_t pid, const char *name)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/%s", (int)pid, name);
	char *text;
	return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

char *vms_host_read_container(pid_t pid)
{
	g_autofree char *text = vms_host_read_proc(pid, "cgroup");
	const char *line = !text			   ? NULL
			   : g_str_has_prefix(text, "0::") ? text
							   : strstr(text, "\n0::");
	if (!line)
		return NULL;
	const char *path = strchr(line, '/');
	g_autofree char *own = path ? g_strndup(path, strcspn(path, "\n")) : NULL;
	char *container = own ? vms_container_name(own) : NULL;
	return container ? container : g_strdup("");
}

void vms_host_record_process(struct vms_host_engine *engine, pid_t pid, uint64_t time_ns)
{
	if (!g_hash_table_add(engine->pids, GINT_TO_POINTER(pid)))
		return;
	g_autofree char *comm = vms_host_read_proc(pid, "comm"),
			*maps = vms_host_read_proc(pid, "maps");
	g_autofree char *container = vms_host_read_container(pid);
	vms_sampler_record_process(engine->sampler, time_ns, (uint32_t)pid, 0,
				   comm ? g_strchomp(comm) : "", container);
	for (char *line = maps, *end; line && *line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		record_mapping(engine, time_ns, pid, line);
		if (!end)
			break;
	}
}

void vms_host_list_numbers(const char *folder, void (*visit)(pid_t number, void *data), void *data)
{
	GDir *dir = g_dir_open(folder, 0, NULL);
	const char *name;
	while (dir && (name = g_dir_read_name(dir)))
		if (g_ascii_isdigit(name[0]))
			visit((pid_t)atoi(name), data);
	if (dir)
		g_dir_close(dir);
}
