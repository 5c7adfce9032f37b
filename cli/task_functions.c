/* SPDX-License-Identifier: MIT */
#include "task_functions.h"
#include "functions.h"
#include "guest/processes.h"
#include "guest/unwind_info.h"
#include "symbol/binary.h"
#include "symbol/symbolizer-private.h"
#include "values.h"
#include <string.h>
#include <vmscope/log.h>

#define ADDRESSES_SHOWN 8 /* in a message */

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

/* Lets the guest's symbolizer know what is mapped at the addresses. */
static void note_addresses(struct session *session, const struct vms_task *task, const GArray *vas)
{
	struct vms_regs regs;
	const struct vms_process *process = vms_guest_process(session->guest, task);
	if (!vms_guest_kernel_regs(session->guest, &regs))
		return;
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &regs);
	vms_guest_enter_process(session->guest, memory,
				process); /* the vDSO is in its memory alone */
	for (guint i = 0; i < vas->len; i++)
		vms_guest_note_address(session->guest, memory, process,
				       g_array_index(vas, uint64_t, i));
	vms_guest_read_files(session->guest);
}

/* Reads the functions of a file, so that servers are asked for them. */
static bool read_functions(const struct vms_mapping *mapping, void *starts)
{
	if (mapping->binary)
		vms_binary_functions(mapping->binary);
	g_array_append_val((GArray *)starts, mapping->start);
	return true;
}

void task_functions_read(struct session *session, const struct vms_task *task)
{
	g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	task_functions_each_code(session, task, read_functions, starts);
	note_addresses(session, task, starts); /* the vDSO, and code made at run time, too */
	session_read_names(session, session->guest);
}

struct vms_symbol_table *task_functions_table(struct session *session, const struct vms_task *task,
					      const struct vms_mapping *mapping, uint64_t *base)
{
	struct vms_symbolizer *symbolizer = vms_guest_symbolizer(session->guest);
	const uint32_t space = vms_guest_process(session->guest, task)->index;
	struct vms_mapping known;
	*base = mapping->start - mapping->offset;
	if (mapping->binary)
		return vms_binary_functions(mapping->binary);
	if (vms_symbolizer_mapping(symbolizer, space, mapping->start, &known) && known.binary)
		return vms_binary_functions(known.binary);
	*base = 0;
	return mapping->file ? NULL : vms_symbolizer_made_code(symbolizer, space);
}

const char *task_functions_module(const struct vms_symbol_table *functions,
				  const struct vms_mapping *mapping)
{
	return mapping->file ? mapping->name : vms_symbol_table_module(functions);
}

void task_functions_each(struct session *session, const struct vms_task *task,
			 const struct vms_mapping *mapping,
			 void (*each)(const struct vms_symbol *function,
				      const struct vms_mapping *mapping, void *data),
			 void *data)
{
	uint64_t base;
	const struct vms_symbol_table *functions =
		task_functions_table(session, task, mapping, &base);
	const size_t n = functions ? vms_symbol_table_count(functions) : 0;
	struct vms_mapping named = *mapping;
	named.name = functions ? task_functions_module(functions, mapping) : NULL;
	for (size_t i = 0; i < n; i++) {
		struct vms_symbol function = vms_symbol_table_get(functions, i);
		function.va += base;
		if (function.va >= mapping->start && function.va < mapping->end)
			each(&function, &named, data);
	}
}

/* ---- by name ---------------------------------------------------------- */

struct wanted {
	struct session *session;
	const struct vms_task *task;
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
		task_functions_each(wanted->session, wanted->task, mapping, add_function,
				    &wanted->functions);
	return true;
}

GArray *task_functions_find(struct session *session, const struct vms_task *task, const char *file,
			    const char *function, GError **error)
{
	if (!task_functions_check(task, error))
		return NULL;
	struct wanted wanted = { .session = session, .task = task, .file = file };
	functions_begin(&wanted.functions, function);
	task_functions_read(session, task);
	task_functions_each_code(session, task, add_of_file, &wanted);
	GArray *vas = functions_end(&wanted.functions);
	if (!vas)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no function \"%s\" is known of %s that thread %u maps: its symbols "
			    "may not be in the guest's memory",
			    function, file ? file : "the files", task->tid);
	return vas;
}

/* ---- one address ------------------------------------------------------ */

/* Functions of one name. */
struct called {
	struct session *session;
	const struct vms_task *task;
	const char *name;
	GString *addresses; /* for a message */
	uint64_t first;
	size_t n;
};

static void add_called(const struct vms_symbol *function, const struct vms_mapping *mapping,
		       void *data)
{
	struct called *called = data;
	if (strcmp(function->name, called->name) != 0)
		return;
	if (called->n == 0)
		called->first = function->va;
	if (called->n < ADDRESSES_SHOWN)
		g_string_append_printf(called->addresses, "%s0x%" G_GINT64_MODIFIER "x (%s)",
				       called->n ? ", " : "", function->va, mapping->name);
	called->n++;
}

static bool add_called_of_file(const struct vms_mapping *mapping, void *data)
{
	struct called *called = data;
	task_functions_each(called->session, called->task, mapping, add_called, called);
	return true;
}

static bool find_called(struct session *session, const struct vms_task *task, const char *name,
			uint64_t *ret)
{
	g_autoptr(GString) addresses = g_string_new(NULL);
	struct called called = { session, task, name, addresses, 0, 0 };
	task_functions_each_code(session, task, add_called_of_file, &called);
	if (called.n > 1)
		vms_log(VMS_LOG_WARNING,
			"%zu functions of thread %u are called \"%s\": using the first; write an "
			"address to choose another: %s%s",
			called.n, task->tid, name, addresses->str,
			called.n > ADDRESSES_SHOWN ? " and more" : "");
	*ret = called.first;
	return called.n > 0;
}

bool task_functions_address(struct session *session, const struct vms_task *task, const char *text,
			    uint64_t *ret, GError **error)
{
	if (g_ascii_isdigit(text[0]))
		return session_address(session, text, ret, error);
	/* C++ has "operator+": a name as a whole comes first. */
	const char *plus = strrchr(text, '+');
	uint64_t offset = 0;
	if (find_called(session, task, text, ret))
		return true;
	if (plus && value_in_c(plus + 1, &offset)) {
		g_autofree char *name = g_strndup(text, (gsize)(plus - text));
		if (find_called(session, task, name, ret)) {
			*ret += offset;
			return true;
		}
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		    "no function \"%s\" is known of the files that thread %u maps: its symbols may "
		    "not be in the guest's memory",
		    text, task->tid);
	return false;
}
