/* SPDX-License-Identifier: MIT */
#include "task_functions.h"
#include "functions.h"
#include "guest/processes.h"
#include "guest/unwind_info.h"
#include "symbol/binary.h"
#include <string.h>

bool task_functions_check(const struct vms_task *task, GError **error)
{
	if (task->mm == 0 && strchr("ZX", task->state))
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "thread %u (%s) has ended, and has no programs any more", task->tid,
			    task->comm);
	else if (task->mm == 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "thread %u (%s) is of the kernel, and has no programs", task->tid,
			    task->comm);
	return task->mm != 0;
}

void task_functions_each_code(struct session *session, const struct vms_task *task,
			      bool (*each)(const struct vms_mapping *mapping, void *data),
			      void *data)
{
	struct vms_mapping mapping = { 0 };
	unsigned areas = VMS_AREAS_LIMIT;
	while (vms_guest_next_code(session->guest, task->mm, mapping.end, &areas, &mapping) &&
	       each(&mapping, data))
		;
}

/* Reads the functions of a file, so that servers are asked for them. */
static bool read_functions(const struct vms_mapping *mapping, void *data)
{
	(void)data;
	if (mapping->binary)
		vms_binary_functions(mapping->binary);
	return true;
}

void task_functions_read(struct session *session, const struct vms_task *task)
{
	task_functions_each_code(session, task, read_functions, NULL);
	session_read_names(session, session->guest);
}

void task_functions_each(const struct vms_mapping *mapping,
			 void (*each)(const struct vms_symbol *function,
				      const struct vms_mapping *mapping, void *data),
			 void *data)
{
	struct vms_symbol_table *functions =
		mapping->binary ? vms_binary_functions(mapping->binary) : NULL;
	const size_t n = functions ? vms_symbol_table_count(functions) : 0;
	for (size_t i = 0; i < n; i++) {
		struct vms_symbol function = vms_symbol_table_get(functions, i);
		if (function.va < mapping->offset ||
		    function.va - mapping->offset >= mapping->end - mapping->start)
			continue;
		function.va += mapping->start - mapping->offset;
		each(&function, mapping, data);
	}
}

/* ---- by name ---------------------------------------------------------- */

struct wanted {
	const char *file; /* NULL: any */
	struct functions functions;
};

static void add_function(const struct vms_symbol *function, const struct vms_mapping *mapping,
			 void *data)
{
	(void)mapping;
	functions_add(data, function);
}

static bool add_of_file(const struct vms_mapping *mapping, void *data)
{
	struct wanted *wanted = data;
	const char *slash = strrchr(mapping->name, '/');
	const char *file = slash ? slash + 1 : mapping->name;
	if (!wanted->file || strcmp(file, wanted->file) == 0)
		task_functions_each(mapping, add_function, &wanted->functions);
	return true;
}

/* Lets the guest's symbolizer know what is mapped at the addresses. */
static void note_addresses(struct session *session, const struct vms_task *task, const GArray *vas)
{
	struct vms_regs regs;
	const struct vms_process *process = vms_guest_process(session->guest, task);
	if (!vms_guest_kernel_regs(session->guest, &regs))
		return;
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &regs);
	for (guint i = 0; i < vas->len; i++)
		vms_guest_note_address(session->guest, memory, process,
				       g_array_index(vas, uint64_t, i));
	vms_guest_read_files(session->guest);
}

GArray *task_functions_find(struct session *session, const struct vms_task *task, const char *file,
			    const char *function, GError **error)
{
	if (!task_functions_check(task, error))
		return NULL;
	struct wanted wanted = { .file = file };
	functions_begin(&wanted.functions, function);
	task_functions_read(session, task);
	task_functions_each_code(session, task, add_of_file, &wanted);
	GArray *vas = functions_end(&wanted.functions);
	if (vas)
		note_addresses(session, task, vas);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no function \"%s\" is known of %s that thread %u maps: its symbols "
			    "may not be in the guest's memory",
			    function, file ? file : "the files", task->tid);
	return vas;
}
