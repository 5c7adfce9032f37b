/* SPDX-License-Identifier: MIT */
/*
 * Processes that were seen, and what is known of their memory areas. Areas are read once, when an
 * address in them is seen first. A process may change its areas at any time, so that what is known
 * of one is believed only while the process's stamp (area.h) is what it was; after that the area is
 * read again, which costs some six reads, and its name only if it is another area. An area that is
 * gone stays known until another takes its place: addresses seen in it are still to be named.
 */
#include "guest/linux/process.h"
#include "guest/linux/area.h"

#define PROCESSES_LIMIT (1u << 20)
#define NAMES_LIMIT	(64u << 20) /* bytes of all names of files */

struct known_area {
	uint64_t start, end, file, offset;
	uint64_t stamp;
	const char *name; /* in `names` */
};

struct process {
	struct vms_process process;
	uint64_t mm;
	GArray *areas; /* struct known_area, by address, not overlapping; NULL: none yet */
};

/*
 * Searched in sorted trees: names and numbers that a guest chooses could make a hash table slow.
 */
struct vms_linux_processes {
	GPtrArray *list;	 /* struct process, by index */
	GTree *tree;		 /* the same, by (pid, name, mm) */
	GTree *names;		 /* names of files, each once */
	size_t names_size;	 /* bytes of all */
	struct vms_areas *areas; /* NULL when areas are not understood */
};

static int compare_processes(const void *a, const void *b, void *data)
{
	(void)data;
	const struct process *x = a, *y = b;
	if (x->process.pid != y->process.pid)
		return x->process.pid < y->process.pid ? -1 : 1;
	if (x->mm != y->mm)
		return x->mm < y->mm ? -1 : 1;
	return strcmp(x->process.comm, y->process.comm);
}

static int compare_names(const void *a, const void *b, void *data)
{
	(void)data;
	return strcmp(a, b);
}

static void free_process(gpointer data)
{
	struct process *process = data;
	if (process->areas)
		g_array_unref(process->areas);
	g_free(process);
}

struct vms_linux_processes *vms_linux_processes_new(struct vms_linux *guest)
{
	struct vms_linux_processes *processes = g_new0(struct vms_linux_processes, 1);
	processes->list = g_ptr_array_new_with_free_func(free_process);
	processes->tree = g_tree_new_full(compare_processes, NULL, NULL, NULL);
	processes->names = g_tree_new_full(compare_names, NULL, g_free, NULL);
	processes->areas = vms_areas_new(guest);
	return processes;
}

void vms_linux_processes_free(struct vms_linux_processes *processes)
{
	if (!processes)
		return;
	g_tree_unref(processes->tree);
	g_tree_unref(processes->names);
	g_ptr_array_unref(processes->list);
	vms_areas_free(processes->areas);
	g_free(processes);
}

/* ---- processes -------------------------------------------------------- */

/* When there are too many, the rest shares the last one. */
static struct process *add_process(struct vms_linux_processes *processes, const struct process *key)
{
	if (processes->list->len == PROCESSES_LIMIT)
		return processes->list->pdata[PROCESSES_LIMIT - 1];
	struct process *process = g_memdup2(key, sizeof(*key));
	process->process.index = processes->list->len;
	if (processes->list->len == PROCESSES_LIMIT - 1) {
		process->mm = 0;
		process->process.pid = 0;
		g_strlcpy(process->process.comm, "[others]", sizeof(process->process.comm));
	}
	g_ptr_array_add(processes->list, process);
	g_tree_insert(processes->tree, process, process);
	return process;
}

const struct vms_process *vms_linux_process(void *system, const struct vms_task *task)
{
	struct vms_linux *guest = system;
	struct vms_linux_processes *processes = guest->processes;
	struct process key = {
		.process = { .pid = task->pid, .is_idle = task->is_idle },
		.mm = task->mm,
	};
	g_strlcpy(key.process.comm, task->process_comm, sizeof(key.process.comm));
	g_mutex_lock(&guest->lock);
	struct process *process = g_tree_lookup(processes->tree, &key);
	if (!process)
		process = add_process(processes, &key);
	g_mutex_unlock(&guest->lock);
	return &process->process;
}

const struct vms_process *vms_linux_process_get(void *system, unsigned index)
{
	struct vms_linux *guest = system;
	const GPtrArray *list = guest->processes->list;
	g_mutex_lock(&guest->lock);
	const struct process *process = index < list->len ? list->pdata[index] : NULL;
	g_mutex_unlock(&guest->lock);
	return process ? &process->process : NULL;
}

/* ---- areas ------------------------------------------------------------ */

/* The first area that ends beyond `va`. */
static guint area_index(const GArray *areas, uint64_t va)
{
	guint low = 0, high = areas->len;
	while (low < high) {
		guint middle = low + (high - low) / 2;
		if (g_array_index(areas, struct known_area, middle).end <= va)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct known_area *known_area(const struct process *process, uint64_t va)
{
	guint i = process->areas ? area_index(process->areas, va) : 0;
	if (!process->areas || i == process->areas->len)
		return NULL;
	struct known_area *area = &g_array_index(process->areas, struct known_area, i);
	return area->start <= va ? area : NULL;
}

static const char *intern_name(struct vms_linux_processes *processes, const char *name)
{
	char *known = g_tree_lookup(processes->names, (gpointer)name);
	if (known)
		return known;
	size_t size = strlen(name) + 1;
	if (size > NAMES_LIMIT - processes->names_size)
		return "[file]";
	processes->names_size += size;
	known = g_strdup(name);
	g_tree_insert(processes->names, known, known);
	return known;
}

/* In the place of all that it overlaps. */
static void add_area(struct process *process, const struct known_area *area)
{
	if (!process->areas)
		process->areas = g_array_new(false, false, sizeof(struct known_area));
	GArray *areas = process->areas;
	guint begin = area_index(areas, area->start), end = begin;
	while (end < areas->len && g_array_index(areas, struct known_area, end).start < area->end)
		end++;
	if (end > begin)
		g_array_remove_range(areas, begin, end - begin);
	if (areas->len < VMS_AREAS_LIMIT)
		g_array_insert_val(areas, begin, *area);
}

/* Is the area of `va` known, and was nothing mapped or unmapped since? */
static bool is_up_to_date(struct vms_linux *guest, const struct process *process, uint64_t va,
			  uint64_t stamp)
{
	g_mutex_lock(&guest->lock);
	const struct known_area *known = known_area(process, va);
	bool up_to_date = known && known->stamp == stamp;
	g_mutex_unlock(&guest->lock);
	return up_to_date;
}

/* Is it this area? Then it is so still, as of `stamp`. */
static bool confirm(struct vms_linux *guest, const struct process *process, uint64_t va,
		    uint64_t stamp, const struct vms_area *area)
{
	g_mutex_lock(&guest->lock);
	struct known_area *known = known_area(process, va);
	bool same = known && known->start == area->start && known->end == area->end &&
		    known->file == area->file && known->offset == area->offset;
	if (same)
		known->stamp = stamp;
	g_mutex_unlock(&guest->lock);
	return same;
}

static void note_area(struct vms_linux *guest, struct process *process, uint64_t stamp,
		      const struct vms_area *area, const char *name)
{
	g_mutex_lock(&guest->lock);
	const struct known_area added = {
		.start = area->start,
		.end = area->end,
		.file = area->file,
		.offset = area->offset,
		.stamp = stamp,
		.name = intern_name(guest->processes, name),
	};
	add_area(process, &added);
	g_mutex_unlock(&guest->lock);
}

/* Memory is read without the lock: a vCPU stands still for it, others shall not wait as well. */
void vms_linux_note_address(void *system, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va)
{
	struct vms_linux *guest = system;
	const struct vms_areas *areas = guest->processes->areas;
	g_mutex_lock(&guest->lock);
	struct process *noted = guest->processes->list->pdata[process->index];
	g_mutex_unlock(&guest->lock);
	if (!areas || noted->mm == 0)
		return;
	uint64_t stamp = vms_areas_stamp(areas, memory, noted->mm);
	struct vms_area area;
	if (is_up_to_date(guest, noted, va, stamp) ||
	    !vms_areas_find(areas, memory, noted->mm, va, &area) ||
	    confirm(guest, noted, va, stamp, &area) || !vms_memory_pin(memory))
		return;
	char name[VMS_AREA_NAME_SIZE];
	vms_areas_name(areas, memory, noted->mm, &area, name);
	note_area(guest, noted, stamp, &area, name);
}

bool vms_linux_locate_user(struct vms_linux *guest, const struct vms_process *process, uint64_t va,
			   const char **file, uint64_t *offset)
{
	g_mutex_lock(&guest->lock);
	const struct known_area *area =
		known_area(guest->processes->list->pdata[process->index], va);
	if (area) {
		*file = area->name;
		*offset = va - area->start + area->offset;
	}
	g_mutex_unlock(&guest->lock);
	return area != NULL;
}

/* ---- mappings --------------------------------------------------------- */

static bool next_code(struct vms_linux *guest, uint64_t mm, uint64_t va, unsigned *areas,
		      struct vms_area *ret)
{
	const struct vms_areas *layout = guest->processes->areas;
	for (; layout && *areas > 0; --*areas) {
		if (!vms_areas_next(layout, guest->memory, mm, va, ret))
			return false;
		if (ret->executable)
			return true;
		va = ret->end;
	}
	return false;
}

bool vms_linux_next_code(void *system, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret)
{
	struct vms_linux *guest = system;
	const struct vms_areas *layout = guest->processes->areas;
	struct vms_area area;
	char name[VMS_AREA_NAME_SIZE];
	g_mutex_lock(&guest->lock);
	bool found = next_code(guest, mm, va, areas, &area);
	if (found) {
		vms_areas_name(layout, guest->memory, mm, &area, name);
		*ret = (struct vms_mapping) {
			.start = area.start,
			.end = area.end,
			.file = vms_areas_file(layout, guest->memory, &area),
			.offset = area.offset,
			.name = intern_name(guest->processes, name),
		};
	}
	g_mutex_unlock(&guest->lock);
	return found;
}

uint64_t vms_linux_mappings_stamp(void *system, uint64_t mm)
{
	struct vms_linux *guest = system;
	struct vms_linux_processes *processes = guest->processes;
	if (!processes->areas)
		return 0;
	g_mutex_lock(&guest->lock);
	uint64_t stamp = vms_areas_stamp(processes->areas, guest->memory, mm);
	g_mutex_unlock(&guest->lock);
	return stamp;
}
