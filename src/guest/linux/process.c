/* SPDX-License-Identifier: MIT */
/*
 * Processes that were seen, and what they map. This file tells the guest's symbolizer of their
 * address spaces. An area is read when an address in it is first seen. A process may change its
 * areas at any time. So a known area is used only while the process's stamp (area.h) stays the
 * same. After that it is read again, by about six reads; its name is read only if it is another
 * area. An area that is gone stays known until another takes its place, because addresses that were
 * seen in it must still be named.
 */
#include "guest/linux/process.h"
#include "guest/linux/area.h"
#include "guest/linux/files.h"
#include "guest/linux/perf_maps.h"
#include "guest/linux/task-private.h"
#include "guest/linux/task_facts.h"

#define PROCESSES_LIMIT (1u << 20)

struct process {
	const struct vms_process *process; /* owned by the symbolizer */
	uint64_t mm;
	uint64_t task; /* address of the task by which it was seen last */
};

struct vms_linux_processes {
	GPtrArray *list;	 /* struct process, by index */
	GTree *tree;		 /* the same by (pid, mm, name); a guest could slow a hash table */
	struct vms_areas *areas; /* NULL if areas are not understood */
	struct vms_linux_files *files;
	struct vms_perf_maps *perf_maps; /* NULL if paths are not understood */
};

static int compare_processes(const void *a, const void *b, void *data)
{
	(void)data;
	const struct process *x = a, *y = b;
	if (x->process->pid != y->process->pid)
		return x->process->pid < y->process->pid ? -1 : 1;
	if (x->mm != y->mm)
		return x->mm < y->mm ? -1 : 1;
	return strcmp(x->process->comm, y->process->comm);
}

struct vms_linux_processes *vms_linux_processes_new(struct vms_linux *guest)
{
	struct vms_linux_processes *processes = g_new0(struct vms_linux_processes, 1);
	processes->list = g_ptr_array_new_with_free_func(g_free);
	processes->tree = g_tree_new_full(compare_processes, NULL, NULL, NULL);
	processes->areas = vms_areas_new(guest);
	processes->files = vms_linux_files_new(guest->page_cache, guest->symbolizer,
					       vms_machine_budget(guest->machine));
	processes->perf_maps = vms_perf_maps_new(guest);
	return processes;
}

void vms_linux_processes_free(struct vms_linux_processes *processes)
{
	if (!processes)
		return;
	g_tree_unref(processes->tree);
	g_ptr_array_unref(processes->list);
	vms_perf_maps_free(processes->perf_maps);
	vms_linux_files_free(processes->files);
	vms_areas_free(processes->areas);
	g_free(processes);
}

/* ---- processes -------------------------------------------------------- */

/* Adds a process. All processes beyond PROCESSES_LIMIT - 1 share the last one. */
static struct process *add_process(struct vms_linux *guest, const struct process *key,
				   uint64_t task)
{
	struct vms_linux_processes *processes = guest->processes;
	const struct vms_process others = { .comm = "[others]" };
	struct vms_process own = *key->process;
	if (processes->list->len == PROCESSES_LIMIT)
		return processes->list->pdata[PROCESSES_LIMIT - 1];
	const bool is_last = processes->list->len == PROCESSES_LIMIT - 1;
	struct process *process = g_new0(struct process, 1);
	g_autofree char *container = is_last ? NULL : vms_linux_container(guest, task);
	if (container)
		own.container = vms_symbolizer_intern(guest->symbolizer, container);
	process->process = vms_symbolizer_add_space(guest->symbolizer, is_last ? &others : &own);
	process->mm = is_last ? 0 : key->mm;
	g_ptr_array_add(processes->list, process);
	g_tree_insert(processes->tree, process, process);
	return process;
}

const struct vms_process *vms_linux_process(void *system, const struct vms_task *task)
{
	struct vms_linux *guest = system;
	struct vms_process shown = { .pid = task->pid, .is_idle = task->is_idle };
	g_strlcpy(shown.comm, task->process_comm, sizeof(shown.comm));
	const struct process key = { .process = &shown, .mm = task->mm };
	g_mutex_lock(&guest->lock);
	struct process *process = g_tree_lookup(guest->processes->tree, &key);
	if (!process)
		process = add_process(guest, &key, task->va);
	process->task = task->va;
	g_mutex_unlock(&guest->lock);
	return process->process;
}

/* ---- areas ------------------------------------------------------------ */

static const struct process *get_process(struct vms_linux *guest, const struct vms_process *process)
{
	g_mutex_lock(&guest->lock);
	const struct process *known = guest->processes->list->pdata[process->index];
	g_mutex_unlock(&guest->lock);
	return known;
}

static bool is_same_area(const struct vms_mapping *known, const struct vms_area *area)
{
	return known->start == area->start && known->end == area->end &&
	       known->file == area->file && known->offset == area->offset;
}

/* Reads memory without the lock: a vCPU is held meanwhile, and no other one should wait for it. */
void vms_linux_note_address(void *system, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va)
{
	struct vms_linux *guest = system;
	const struct vms_areas *areas = guest->processes->areas;
	const struct process *ours = get_process(guest, process);
	const uint64_t mm = areas ? ours->mm : 0;
	struct vms_mapping known;
	struct vms_area area;
	char name[VMS_AREA_NAME_SIZE];
	if (mm == 0)
		return;
	const uint64_t stamp = vms_areas_stamp(areas, memory, mm);
	const bool is_known = vms_symbolizer_mapping(guest->symbolizer, process->index, va, &known);
	if ((is_known && known.stamp == stamp) || !vms_areas_find(areas, memory, mm, va, &area))
		return;
	if (!is_known || !is_same_area(&known, &area)) {
		if (!vms_memory_pin(memory))
			return;
		vms_areas_name(areas, memory, mm, &area, name);
		known = (struct vms_mapping) {
			.start = area.start,
			.end = area.end,
			.file = area.file,
			.offset = area.offset,
			.name = vms_symbolizer_intern(guest->symbolizer, name),
		};
		if (area.file)
			vms_linux_files_note(guest->processes->files, memory, process->index,
					     &known, area.file);
		else if (strcmp(name, "[vdso]") == 0)
			vms_linux_files_note_vdso(guest->processes->files, memory, process->index,
						  &known);
		else if (guest->processes->perf_maps)
			vms_perf_maps_note(guest->processes->perf_maps, process->index, ours->task,
					   process->pid, mm);
	}
	known.stamp = stamp;
	vms_symbolizer_map(guest->symbolizer, process->index, &known);
}

bool vms_linux_enter_process(void *system, struct vms_memory *memory,
			     const struct vms_process *process)
{
	struct vms_linux *guest = system;
	const struct vms_task_arch *arch = guest->tasks->arch;
	const uint64_t mm = get_process(guest, process)->mm;
	const struct vms_regs *now = vms_memory_regs(memory);
	if (mm == 0 || !vms_linux_has_program(guest, memory, mm))
		return false;
	const uint64_t pgd = vms_linux_page_tables(guest, memory, mm);
	struct vms_regs regs = *now;
	arch->set_tables(&regs, pgd);
	if (pgd != 0 && arch->tables(&regs) != arch->tables(now))
		vms_memory_set_regs(memory, &regs);
	return true;
}

void vms_linux_read_files(void *system)
{
	struct vms_linux *guest = system;
	vms_linux_files_read(guest->processes->files, guest->symbolizer);
	if (guest->processes->perf_maps)
		vms_perf_maps_read(guest->processes->perf_maps);
}

bool vms_linux_user_code(void *system, struct vms_memory *memory, const struct vms_process *process,
			 uint64_t va, struct vms_mapping *ret)
{
	struct vms_linux *guest = system;
	struct vms_symbolizer *symbolizer = guest->symbolizer;
	vms_linux_note_address(system, memory, process, va);
	if (!vms_symbolizer_mapping(symbolizer, process->index, va, ret))
		return false;
	if (!ret->binary) {
		vms_linux_files_open_noted(guest->processes->files, symbolizer, process->index,
					   !vms_memory_is_urgent(memory));
		return vms_symbolizer_mapping(symbolizer, process->index, va, ret);
	}
	return true;
}

/* ---- mappings --------------------------------------------------------- */

/* Finds the first executable area that ends beyond `va`, among the next `*areas` areas. */
static bool find_next_code(struct vms_linux *guest, uint64_t mm, uint64_t va, unsigned *areas,
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

/* Opens the file of an area, which stays open as long as the guest is known. NULL if it cannot. */
static struct vms_binary *open_binary(struct vms_linux *guest, const struct vms_area *area,
				      const char *path)
{
	struct vms_cached_file file;
	if (!guest->page_cache)
		return NULL;
	g_mutex_lock(&guest->lock);
	const bool located =
		vms_page_cache_locate(guest->page_cache, guest->memory, area->file, &file);
	g_mutex_unlock(&guest->lock);
	struct vms_binary *binary =
		located ? vms_linux_files_open(guest->processes->files, path, &file) : NULL;
	vms_binary_unref(binary); /* the files keep it */
	return binary;
}

bool vms_linux_next_code(void *system, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret)
{
	struct vms_linux *guest = system;
	const struct vms_areas *layout = guest->processes->areas;
	struct vms_area area;
	char name[VMS_AREA_NAME_SIZE];
	g_mutex_lock(&guest->lock);
	bool found = find_next_code(guest, mm, va, areas, &area);
	if (found) {
		vms_areas_name(layout, guest->memory, mm, &area, name);
		*ret = (struct vms_mapping) {
			.start = area.start,
			.end = area.end,
			.file = vms_areas_file(layout, guest->memory, &area),
			.offset = area.offset,
			.name = vms_symbolizer_intern(guest->symbolizer, name),
		};
	}
	g_mutex_unlock(&guest->lock);
	if (found && area.file)
		ret->binary = open_binary(guest, &area, ret->name);
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
