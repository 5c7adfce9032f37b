/* SPDX-License-Identifier: MIT */
#include "guest/linux/perf_maps.h"
#include "base/clock.h"
#include "guest/linux/page_cache.h"
#include "guest/linux/path_lookup.h"
#include "guest/linux/task.h"
#include "symbol/perf_map.h"
#include "symbol/symbolizer-private.h"
#include <inttypes.h>
#include <vmscope/log.h>

#define PROCESSES_LIMIT 4096
#define TABLES_LIMIT	(64u << 20) /* bytes of all tables, replaced ones included */
#define MAPS_READ_NS	(UINT64_C(200) * 1000 * 1000) /* of reading maps, at a time */
#define BLOCK		4096

struct noted {
	uint32_t space, pid;
	uint64_t task, mm;
	uint64_t size;	  /* of the map when it was read; 0: there was none */
	uint64_t next_ns; /* when it may be read again */
};

struct vms_perf_maps {
	struct vms_linux *guest;
	struct vms_path_lookup *lookup;
	GMutex lock;	/* guards `noted`; taken while a vCPU is held, so never for long */
	GArray *noted;	/* struct noted */
	GMutex reading; /* guards all that follows */
	struct vms_memory *memory; /* of its own: the guest's is used while vCPUs are held */
	size_t table_bytes;
	bool is_full; /* there is no room for further tables, which was said */
};

struct vms_perf_maps *vms_perf_maps_new(struct vms_linux *guest)
{
	struct vms_path_lookup *lookup = guest->page_cache ? vms_path_lookup_new(guest) : NULL;
	if (!lookup)
		return NULL;
	struct vms_perf_maps *maps = g_new0(struct vms_perf_maps, 1);
	maps->guest = guest;
	maps->lookup = lookup;
	g_mutex_init(&maps->lock);
	g_mutex_init(&maps->reading);
	maps->noted = g_array_new(FALSE, FALSE, sizeof(struct noted));
	maps->memory = vms_memory_new(guest->machine, vms_memory_regs(guest->memory));
	g_autoptr(vms_budget) budget = vms_budget_new_part(vms_machine_budget(guest->machine),
							   "perf maps of the guest's programs");
	vms_memory_set_budget(maps->memory, budget);
	return maps;
}

void vms_perf_maps_free(struct vms_perf_maps *maps)
{
	if (!maps)
		return;
	vms_memory_free(maps->memory);
	g_array_unref(maps->noted);
	g_mutex_clear(&maps->reading);
	g_mutex_clear(&maps->lock);
	vms_path_lookup_free(maps->lookup);
	g_free(maps);
}

void vms_perf_maps_note(struct vms_perf_maps *maps, uint32_t space, uint64_t task, uint32_t pid,
			uint64_t mm)
{
	const struct noted noted = { .space = space, .pid = pid, .task = task, .mm = mm };
	g_mutex_lock(&maps->lock);
	guint i = 0;
	while (i < maps->noted->len && g_array_index(maps->noted, struct noted, i).space != space)
		i++;
	if (i < maps->noted->len)
		g_array_index(maps->noted, struct noted, i).task = task; /* the other may be gone */
	else if (i < PROCESSES_LIMIT)
		g_array_append_val(maps->noted, noted);
	g_mutex_unlock(&maps->lock);
}

/* ---- reading ---------------------------------------------------------- */

/* Finds the map of a process. False if it has none, or has ended. */
static bool find_map(struct vms_perf_maps *maps, const struct noted *noted, char **path,
		     struct vms_cached_file *ret)
{
	uint32_t own_pid;
	uint64_t inode;
	if (!vms_path_lookup_own_pid(maps->lookup, maps->memory, noted->task, &own_pid) ||
	    !vms_linux_task_has(maps->guest, noted->task, noted->pid, noted->mm))
		return false;
	*path = g_strdup_printf("/tmp/perf-%" PRIu32 ".map", own_pid);
	return vms_path_lookup_inode(maps->lookup, maps->memory, noted->task, *path, &inode) &&
	       vms_page_cache_of_inode(maps->guest->page_cache, inode, ret);
}

/* Reads the last part of a map. What is not in memory is zeros. */
static uint8_t *read_text(struct vms_perf_maps *maps, const struct vms_cached_file *file,
			  size_t *size)
{
	const uint64_t begin =
		file->size > VMS_PERF_MAP_LIMIT ? file->size - VMS_PERF_MAP_LIMIT : 0;
	*size = file->size - begin;
	uint8_t *text = g_malloc0(*size + 1);
	for (uint64_t at = begin, part; at < file->size; at += part) {
		part = MIN(file->size - at, BLOCK - at % BLOCK);
		if (!vms_page_cache_read(maps->guest->page_cache, file, at, text + (at - begin),
					 part))
			memset(text + (at - begin), 0, part);
	}
	return text;
}

static void add_table(struct vms_perf_maps *maps, const struct noted *noted, const char *path,
		      const struct vms_cached_file *file)
{
	size_t size;
	g_autofree uint8_t *text = read_text(maps, file, &size);
	g_autoptr(vms_symbol_table) table = vms_perf_map_parse(
		(struct vms_bytes) { text, size, vms_memory_budget(maps->memory) }, path);
	const size_t bytes = vms_symbol_table_bytes(table);
	if (bytes > TABLES_LIMIT - maps->table_bytes) {
		vms_log(VMS_LOG_WARNING,
			"the maps of code that the guest's programs make at run time are too "
			"large: some functions of %s and of other processes get no names",
			path);
		maps->is_full = true;
		return;
	}
	maps->table_bytes += bytes;
	vms_symbolizer_set_made_code(maps->guest->symbolizer, noted->space, table);
	if (file->size > VMS_PERF_MAP_LIMIT)
		vms_log(VMS_LOG_INFO, "of %s, only the last 64 MiB were read", path);
}

/* Reads the map of a process if it has grown. */
static void read_map(struct vms_perf_maps *maps, struct noted *noted)
{
	struct vms_cached_file file;
	g_autofree char *path = NULL;
	const uint64_t begin_ns = vms_clock_now_ns();
	if (begin_ns < noted->next_ns || !find_map(maps, noted, &path, &file) ||
	    file.size == noted->size)
		return;
	noted->size = file.size;
	add_table(maps, noted, path, &file);
	const uint64_t now_ns = vms_clock_now_ns();
	noted->next_ns = now_ns + 10 * (now_ns - begin_ns);
}

void vms_perf_maps_read(struct vms_perf_maps *maps)
{
	g_mutex_lock(&maps->reading);
	const uint64_t end_ns = vms_clock_now_ns() + MAPS_READ_NS;
	for (guint i = 0; !maps->is_full; i++) {
		g_mutex_lock(&maps->lock);
		const bool is_last = i >= maps->noted->len;
		struct noted noted = { 0 };
		if (!is_last)
			noted = g_array_index(maps->noted, struct noted, i);
		g_mutex_unlock(&maps->lock);
		if (is_last || vms_clock_now_ns() > end_ns)
			break;
		read_map(maps, &noted);
		g_mutex_lock(&maps->lock);
		struct noted *kept = &g_array_index(maps->noted, struct noted, i);
		kept->size = noted.size;
		kept->next_ns = noted.next_ns;
		g_mutex_unlock(&maps->lock);
	}
	g_mutex_unlock(&maps->reading);
}
