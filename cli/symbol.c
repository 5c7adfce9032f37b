/* SPDX-License-Identifier: MIT */
/* vmscope symbol: addresses of names, names of addresses, or all symbols. */
#include "commands.h"
#include <string.h>

struct output {
	struct session *session;
	struct vms_table *table;
};

/* Text as /proc/kallsyms has it. */
static void add_symbol(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct output *output = data;
	const char type[] = { symbol->type, '\0' };
	if (output->session->json)
		vms_table_add(output->table, symbol->va, symbol->size, type, symbol->name, module);
	else
		g_string_append_printf(output->session->out,
				       "%016" G_GINT64_MODIFIER "x %s %s%s%s%s\n", symbol->va, type,
				       symbol->name, module ? "\t[" : "", module ? module : "",
				       module ? "]" : "");
}

static bool add_address(struct output *output, uint64_t va, GError **error)
{
	struct vms_location location;
	if (!session_locate(output->session, NULL, va, false, &location)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "nothing is known at 0x%" G_GINT64_MODIFIER "x in this guest", va);
		return false;
	}
	if (output->session->json) {
		struct vms_symbol symbol = { location.symbol, location.start, location.size, '?' };
		add_symbol(&symbol, location.module, output);
	} else {
		g_autofree char *name = session_name(&location);
		g_string_append_printf(output->session->out, "%s\n", name);
	}
	return true;
}

static bool run(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = {
		{ "address", VMS_COLUMN_ADDRESS }, { "size", VMS_COLUMN_NUMBER },
		{ "type", VMS_COLUMN_TEXT },	   { "name", VMS_COLUMN_TEXT },
		{ "module", VMS_COLUMN_TEXT },	   { NULL }
	};
	if (!session_parse(session, NULL, &argc, &argv, 0, 1, error) ||
	    !session_open_guest(session, error))
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	struct output output = { session, table };
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
	.run = run,
};
