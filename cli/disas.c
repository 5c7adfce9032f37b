/* SPDX-License-Identifier: MIT */
/* vmscope disas: instructions of a function of the guest. */
#include "commands.h"

#define MAX_FUNCTION (1 << 20) /* bytes */
#define NO_SYMBOL    64	       /* bytes shown where no symbol tells the length */

struct output {
	struct session *session;
	struct vms_table *table;
};

static bool add_instruction(const struct vms_insn *insn, void *data)
{
	struct output *output = data;
	struct vms_location location = { 0 };
	g_autofree char *target = NULL;
	if (insn->branch_target &&
	    session_locate(output->session, NULL, insn->branch_target, false, &location))
		target = session_name(&location);
	if (output->session->json)
		vms_table_add(output->table, insn->va, (uint64_t)insn->size, insn->text, target);
	else
		g_string_append_printf(output->session->out, "%016" G_GINT64_MODIFIER "x  %s%s%s\n",
				       insn->va, insn->text, target ? "  # " : "",
				       target ? target : "");
	return true;
}

/* Where the function around `va` begins and how long it is. */
static void find_function(struct session *session, uint64_t *va, uint64_t *size)
{
	struct vms_location location;
	*size = NO_SYMBOL;
	if (!session_locate(session, NULL, *va, false, &location) || !location.symbol)
		return;
	*va = location.start;
	*size = location.size;
}

static bool run(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = { { "address", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_NUMBER },
						     { "text", VMS_COLUMN_TEXT },
						     { "target", VMS_COLUMN_TEXT },
						     { NULL } };
	uint64_t va, size;
	if (!session_parse(session, NULL, &argc, &argv, 1, 1, error) ||
	    !session_open_guest(session, error) || !session_address(session, argv[1], &va, error))
		return false;
	find_function(session, &va, &size);
	size = CLAMP(size, 1, MAX_FUNCTION);
	g_autofree uint8_t *code = g_malloc(size);
	if (!session_read(session, false, 0, va, code, size, error))
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	struct output output = { session, table };
	bool whole = vms_disassemble(vms_machine_arch(session->machine), va, code, size,
				     add_instruction, &output, error);
	if (session->json)
		session_table(session, table);
	return whole;
}

const struct command command_disas = {
	.name = "disas",
	.arguments = "FUNCTION|ADDRESS",
	.summary = "Instructions of a function of the guest",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run,
};
