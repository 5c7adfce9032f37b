/* SPDX-License-Identifier: MIT */
/* vmscope symbol: shows addresses of names, names of addresses, or all symbols. */
#include "commands.h"
#include "find_task.h"
#include "task_functions.h"
#include "values.h"
#include <string.h>

struct output {
	struct session *session;
	struct vms_table *table;
	uint64_t asked;	      /* the address whose name is asked for */
	const char *name;     /* of the functions that are asked for; NULL: all */
	struct vms_task task; /* whose functions are asked for, with --task */
	bool done;	      /* a row was added for it */
};

static void add_row(struct vms_table *table, const struct vms_symbol *symbol, const char *module,
		    uint64_t offset)
{
	const char type[] = { symbol->type, '\0' };
	vms_table_add(table, symbol->va, symbol->size, symbol->type ? type : NULL, symbol->name,
		      offset, module);
}

/* Adds a symbol. The text is like that of /proc/kallsyms. */
static void add_symbol(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct output *output = data;
	if (output->session->json)
		add_row(output->table, symbol, module, 0);
	else
		g_string_append_printf(output->session->out,
				       "%016" G_GINT64_MODIFIER "x %c %s%s%s%s\n", symbol->va,
				       symbol->type, symbol->name, module ? "\t[" : "",
				       module ? module : "", module ? "]" : "");
}

/* Adds the symbol if the address lies in it. Several symbols may have the same name. */
static void add_if_around_address(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct output *output = data;
	if (output->done || output->asked - symbol->va >= MAX(symbol->size, 1))
		return;
	add_row(output->table, symbol, module, output->asked - symbol->va);
	output->done = true;
}

static bool add_address(struct output *output, uint64_t va, GError **error)
{
	struct vms_location location;
	if (!session_locate(output->session, NULL, va, false, &location)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "nothing is known at 0x%" G_GINT64_MODIFIER "x in this guest", va);
		return false;
	}
	if (!output->session->json) {
		g_autofree char *name = session_name(&location);
		g_string_append_printf(output->session->out, "%016" G_GINT64_MODIFIER "x %s\n", va,
				       name);
		return true;
	}
	output->asked = va;
	if (location.symbol)
		vms_guest_lookup(output->session->guest, location.symbol, add_if_around_address,
				 output);
	if (!output->done) { /* no symbol in the tables has it, but its name is known */
		struct vms_symbol symbol = { location.symbol, location.start, location.size, 0 };
		add_row(output->table, &symbol, location.module, location.offset);
	}
	return true;
}

/* ---- functions of a process ------------------------------------------- */

static void add_if_called(const struct vms_symbol *function, const struct vms_mapping *mapping,
			  void *data)
{
	struct output *output = data;
	if (output->name && strcmp(function->name, output->name) != 0)
		return;
	add_symbol(function, mapping->name, output);
	output->done = true;
}

/* Adds the functions of a mapped file that are called output->name, or all if that is NULL. */
static bool add_functions(const struct vms_mapping *mapping, void *data)
{
	struct output *output = data;
	task_functions_each(output->session, &output->task, mapping, add_if_called, output);
	return true;
}

/* Adds the name of output->asked if the mapping has it. */
static bool add_function_around(const struct vms_mapping *mapping, void *data)
{
	struct output *output = data;
	struct vms_symbol symbol;
	uint64_t base;
	if (output->asked < mapping->start || output->asked >= mapping->end)
		return mapping->end <= output->asked;
	const uint64_t offset = output->asked - mapping->start + mapping->offset;
	const struct vms_symbol_table *functions =
		task_functions_table(output->session, &output->task, mapping, &base);
	const bool is_known =
		functions && vms_symbol_table_find(functions, output->asked - base, &symbol);
	const char *module = is_known ? task_functions_module(functions, mapping) : mapping->name;
	output->done = true;
	if (output->session->json && is_known) {
		symbol.va += base;
		add_row(output->table, &symbol, module, output->asked - symbol.va);
	} else if (output->session->json) {
		symbol = (struct vms_symbol) { .va = mapping->start - mapping->offset };
		add_row(output->table, &symbol, mapping->name, offset);
	} else {
		const struct vms_location location = {
			.symbol = is_known ? symbol.name : NULL,
			.module = module,
			.offset = is_known ? output->asked - base - symbol.va : offset,
		};
		g_autofree char *name = session_name(&location);
		g_string_append_printf(output->session->out, "%016" G_GINT64_MODIFIER "x %s\n",
				       output->asked, name);
	}
	return false;
}

/* Adds the name of an address of the process. */
static bool add_address_of_task(struct output *output, const char *what, GError **error)
{
	if (!task_functions_address(output->session, &output->task, what, &output->asked, error))
		return false;
	task_functions_each_code(output->session, &output->task, add_function_around, output);
	if (!output->done)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "thread %u maps no code at %s",
			    output->task.tid, what);
	return output->done;
}

/* Adds what is asked for of the code that a thread's process maps. */
static bool add_of_task(struct output *output, unsigned tid, const char *what, GError **error)
{
	if (!find_task(output->session, tid, &output->task, error) ||
	    !task_functions_check(&output->task, error))
		return false;
	output->name = what;
	task_functions_read(output->session, &output->task);
	if (what && g_ascii_isdigit(what[0]))
		return add_address_of_task(output, what, error);
	task_functions_each_code(output->session, &output->task, add_functions, output);
	/* C++ has "operator+": a name as a whole comes first. */
	if (!output->done && what && strchr(what, '+'))
		return add_address_of_task(output, what, error);
	if (!output->done)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no function%s%s%s is known of the files that thread %u maps: its "
			    "symbols may not be in the guest's memory",
			    what ? " \"" : "", what ? what : "", what ? "\"" : "", tid);
	return output->done;
}

static bool run_symbol(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = { { "address", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_NUMBER },
						     { "type", VMS_COLUMN_TEXT },
						     { "name", VMS_COLUMN_TEXT },
						     { "offset", VMS_COLUMN_NUMBER },
						     { "module", VMS_COLUMN_TEXT },
						     { NULL } };
	g_autofree char *task = NULL;
	const GOptionEntry options[] = {
		{ "task", 0, 0, G_OPTION_ARG_STRING, &task,
		  "Of the programs and libraries that thread TID of the guest maps", "TID" },
		{ NULL }
	};
	unsigned tid = 0;
	if (!session_parse(session, options, &argc, &argv, 0, 1, error) ||
	    !value_unsigned("--task", task, 0, G_MAXINT, &tid, error) ||
	    !session_open_guest(session, error))
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	struct output output = { .session = session, .table = table };
	bool done = true;
	const char *what = argc > 1 ? argv[1] : NULL;
	if (task) {
		done = add_of_task(&output, tid, what, error);
	} else if (what && (g_ascii_isdigit(what[0]) || strchr(what, '+'))) {
		uint64_t va;
		done = session_address(session, what, &va, error) &&
		       add_address(&output, va, error);
	} else if (vms_guest_lookup(session->guest, what, add_symbol, &output) == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    what ? "no symbol \"%s\" in this guest" : "no symbols in this guest%s",
			    what ? what : "");
		done = false;
	}
	if (done && session->json)
		session_table(session, table);
	return done;
}

const struct command command_symbol = {
	.name = "symbol",
	.arguments = "[NAME|NAME+OFFSET|ADDRESS]",
	.summary = "The address of a name, the name of an address, or all symbols",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run_symbol,
};
