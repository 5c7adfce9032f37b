/* SPDX-License-Identifier: MIT */
/* vmscope disas: shows the instructions of a function of the guest. */
#include "code_mode.h"
#include "commands.h"

#define MAX_FUNCTION (1 << 20) /* bytes */
#define NO_SYMBOL    64	       /* bytes to show if no symbol tells the length */

/* The code to show. Its last instruction is shown whole, even if it ends behind the code. */
struct code {
	uint64_t va, size;
	uint64_t asked; /* the address on the command line, which is in the code */
	char *name;	/* of the function; NULL if no symbol tells it */
	uint8_t *bytes;
	/* At most size + VMS_INSN_MAX - 1. May be less than `size` if no symbol tells the size. */
	size_t n_read;
};

struct output {
	struct session *session;
	struct vms_table *table;
	uint64_t end;	/* instructions that begin here or behind are not shown */
	uint64_t asked; /* the instruction here is marked */
};

static bool add_instruction(const struct vms_insn *insn, void *data)
{
	struct output *output = data;
	struct vms_location location = { 0 };
	g_autofree char *target = NULL;
	if (insn->va >= output->end)
		return false;
	if (insn->branch_target &&
	    session_locate(output->session, NULL, insn->branch_target, false, &location))
		target = session_name(&location);
	if (output->session->json)
		vms_table_add(output->table, insn->va, (uint64_t)insn->size, insn->text, target);
	else
		g_string_append_printf(
			output->session->out, "%s%016" G_GINT64_MODIFIER "x  %s%s%s\n",
			output->asked - insn->va < insn->size ? "=> " : "   ", insn->va, insn->text,
			target ? "  # " : "", target ? target : "");
	return true;
}

/* Finds the begin and size of the function around code->va. Without a symbol it begins there. */
static void find_function(struct session *session, struct code *code)
{
	struct vms_location location;
	code->asked = code->va;
	code->size = NO_SYMBOL;
	if (session_locate(session, NULL, code->va, false, &location) && location.symbol) {
		code->name = session_name(&location);
		code->va = location.start;
		code->size = CLAMP(location.size, 1, MAX_FUNCTION);
	}
}

/*
 * Reads the code while the machine is held. The last instruction may reach into a page that cannot
 * be read. If no symbol tells the function's size, fewer than code->size bytes are enough.
 */
static bool read_code(struct session *session, unsigned vcpu, struct code *code, GError **error)
{
	GError *failure = NULL;
	size_t most = code->size + VMS_INSN_MAX - 1, least = code->name ? code->size : 1;
	code->bytes = g_malloc(most);
	code->n_read =
		session_read_first(session, false, vcpu, code->va, code->bytes, most, &failure);
	if (code->n_read >= least) {
		g_clear_error(&failure);
		return true;
	}
	g_propagate_error(error, failure);
	return false;
}

static bool get_code(struct session *session, unsigned vcpu, struct code *code,
		     struct vms_code_mode *mode, GError **error)
{
	if (!vms_machine_observe(session->machine, error))
		return false;
	bool done =
		code_mode_get(session, vcpu, mode, error) && read_code(session, vcpu, code, error);
	return vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL) && done;
}

static bool show_code(struct session *session, const struct code *code,
		      const struct vms_code_mode *mode, GError **error)
{
	static const struct vms_column columns[] = { { "address", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_NUMBER },
						     { "text", VMS_COLUMN_TEXT },
						     { "target", VMS_COLUMN_TEXT },
						     { NULL } };
	g_autoptr(vms_table) table = vms_table_new(columns);
	struct output output = { session, table, code->va + MIN(code->size, code->n_read),
				 code->asked };
	if (code->name && !session->json)
		g_string_append_printf(session->out, "%s:\n", code->name);
	if (!vms_disassemble(vms_machine_arch(session->machine), mode->bits, mode->code_base,
			     code->va, code->bytes, code->n_read, add_instruction, &output, error))
		return false;
	if (session->json)
		session_table(session, table);
	return true;
}

static bool run_disas(struct session *session, int argc, char **argv, GError **error)
{
	g_autofree char *cpu = NULL, *width = NULL;
	const GOptionEntry options[] = {
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &cpu,
		  "Use the page tables and the mode of vCPU N", "N" },
		{ "bits", 0, 0, G_OPTION_ARG_STRING, &width,
		  "Width of x86-64 code (default: as the vCPU executes now)", "16|32|64" },
		{ NULL }
	};
	unsigned vcpu = 0;
	int bits = 0;
	struct code code = { 0 };
	struct vms_code_mode mode;
	if (!session_parse(session, options, &argc, &argv, 1, 1, error) ||
	    !code_mode_parse(width, &bits, error) || !session_open_guest(session, error) ||
	    !code_mode_check(session, bits, error) || !session_vcpu(session, cpu, &vcpu, error) ||
	    !session_address(session, argv[1], &code.va, error))
		return false;
	find_function(session, &code);
	bool done = get_code(session, vcpu, &code, &mode, error);
	if (done) {
		code_mode_choose(vcpu, code.va, bits, &mode);
		done = show_code(session, &code, &mode, error);
	}
	g_free(code.bytes);
	g_free(code.name);
	return done;
}

const struct command command_disas = {
	.name = "disas",
	.arguments = "FUNCTION|ADDRESS",
	.summary = "Instructions of a function of the guest",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run_disas,
};
