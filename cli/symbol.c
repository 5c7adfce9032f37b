/* SPDX-License-Identifier: MIT */
/* vmscope symbol: shows addresses of names, names of addresses, or all symbols. */
#include "commands.h"
#include <string.h>

struct output {
	struct session *session;
	struct vms_table *table;
	uint64_t asked; /* the address whose name is asked for */
	bool done;	/* a row was added for it */
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

static bool run_symbol(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = { { "address", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_NUMBER },
						     { "type", VMS_COLUMN_TEXT },
						     { "name", VMS_COLUMN_TEXT },
						     { "offset", VMS_COLUMN_NUMBER },
						     { "module", VMS_COLUMN_TEXT },
						     { NULL } };
	if (!session_parse(session, NULL, &argc, &argv, 0, 1, error) ||
	    !session_open_guest(session, error))
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	struct output output = { .session = session, .table = table };
	bool done = true;
	const char *what = argc > 1 ? argv[1] : NULL;
	if (what && (g_ascii_isdigit(what[0]) || strchr(what, '+'))) {
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
