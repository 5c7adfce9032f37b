/* SPDX-License-Identifier: MIT */
/* vmscope disas: shows the instructions of a function of the guest. */
#include "code_mode.h"
#include "commands.h"
#include "find_task.h"
#include "guest/unwind_info.h"
#include "symbol/binary.h"
#include "task_functions.h"
#include "values.h"

#define MAX_FUNCTION (1 << 20) /* bytes */
#define NO_SYMBOL    64	       /* bytes to show if no symbol tells the length */
#define PAGE	     4096      /* memory begins and ends at multiples of it */

/* The code to show. Its last instruction is shown whole, even if it ends behind the code. */
struct code {
	uint64_t va, size;
	uint64_t asked; /* the address on the command line, which is in the code */
	char *name;	/* of the function; NULL if no symbol tells it */
	uint8_t *bytes;
	/* At most size + VMS_INSN_MAX - 1. May be less than `size` if no symbol tells the size. */
	size_t n_read;
	const struct vms_process *process; /* whose code it is; NULL: the kernel's, or any */
};

struct output {
	struct session *session;
	struct vms_table *table;
	uint64_t end;	/* instructions that begin here or behind are not shown */
	uint64_t asked; /* the instruction here is marked */
	const struct vms_process *process;
};

static bool add_instruction(const struct vms_insn *insn, void *data)
{
	struct output *output = data;
	struct vms_location location = { 0 };
	g_autofree char *target = NULL;
	if (insn->va >= output->end)
		return false;
	if (insn->branch_target &&
	    session_locate(output->session, output->process, insn->branch_target, false, &location))
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
	if (session_locate(session, code->process, code->va, false, &location) && location.symbol) {
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

/* Reads a part of a page as the process has it, or else as its file has it. */
static bool read_of_process(struct session *session, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va, uint8_t *bytes,
			    size_t size)
{
	struct vms_mapping mapping;
	if (vms_memory_read(memory, va, bytes, size))
		return true;
	return vms_guest_user_code(session->guest, memory, process, va, &mapping) &&
	       mapping.binary && size <= mapping.end - va &&
	       vms_binary_read(mapping.binary, va - mapping.start + mapping.offset, bytes, size);
}

/* Reads code of a process. It may end before code->size if no symbol tells the size. */
static bool read_task_code(struct session *session, struct code *code, GError **error)
{
	struct vms_regs regs = { 0 };
	const size_t most = code->size + VMS_INSN_MAX - 1, least = code->name ? code->size : 1;
	code->bytes = g_malloc(most);
	bool has_read = vms_guest_kernel_regs(session->guest, &regs);
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &regs);
	has_read = has_read && vms_guest_enter_process(session->guest, memory, code->process);
	while (has_read && code->n_read < most) {
		const uint64_t va = code->va + code->n_read;
		const size_t part = MIN(most - code->n_read, PAGE - va % PAGE);
		has_read = read_of_process(session, memory, code->process, va,
					   code->bytes + code->n_read, part);
		code->n_read += has_read ? part : 0;
	}
	if (code->n_read >= least)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
		    "cannot read the code at 0x%" G_GINT64_MODIFIER
		    "x: neither the process nor its file has it in the guest's memory",
		    code->va + code->n_read);
	return false;
}

/* Finds and reads code of the programs and libraries that a thread maps. */
static bool get_task_code(struct session *session, unsigned tid, const char *what,
			  struct code *code, GError **error)
{
	struct vms_task task;
	if (!find_task(session, tid, &task, error) || !task_functions_check(&task, error))
		return false;
	code->process = vms_guest_process(session->guest, &task);
	task_functions_read(session, &task);
	if (!task_functions_address(session, &task, what, &code->va, error))
		return false;
	find_function(session, code);
	return read_task_code(session, code, error);
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
				 code->asked, code->process };
	if (code->name && !session->json)
		g_string_append_printf(session->out, "%s:\n", code->name);
	if (!vms_disassemble(vms_machine_arch(session->machine), mode->bits, mode->code_base,
			     code->va, code->bytes, code->n_read, add_instruction, &output, error))
		return false;
	if (session->json)
		session_table(session, table);
	return true;
}

/* Finds and reads code by the page tables of a vCPU. */
static bool get_vcpu_code(struct session *session, const char *cpu, int bits, const char *what,
			  struct code *code, struct vms_code_mode *mode, GError **error)
{
	unsigned vcpu = 0;
	if (!session_vcpu(session, cpu, &vcpu, error) ||
	    !session_address(session, what, &code->va, error))
		return false;
	find_function(session, code);
	if (!get_code(session, vcpu, code, mode, error))
		return false;
	code_mode_choose(vcpu, code->va, bits, mode);
	return true;
}

static bool run_disas(struct session *session, int argc, char **argv, GError **error)
{
	g_autofree char *cpu = NULL, *width = NULL, *task = NULL;
	const GOptionEntry options[] = {
		{ "task", 0, 0, G_OPTION_ARG_STRING, &task,
		  "Of the programs and libraries that thread TID of the guest maps", "TID" },
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &cpu,
		  "Use the page tables and the mode of vCPU N", "N" },
		{ "bits", 0, 0, G_OPTION_ARG_STRING, &width,
		  "Width of x86-64 code (default: as the vCPU executes now, or 64 with --task)",
		  "16|32|64" },
		{ NULL }
	};
	unsigned tid = 0;
	int bits = 0;
	struct code code = { 0 };
	struct vms_code_mode mode;
	if (!session_parse(session, options, &argc, &argv, 1, 1, error) ||
	    !code_mode_parse(width, &bits, error) ||
	    !value_unsigned("--task", task, 0, G_MAXINT, &tid, error))
		return false;
	if (task && cpu) {
		usage_error(error, "--task and --cpu exclude each other");
		return false;
	}
	if (!session_open_guest(session, error) || !code_mode_check(session, bits, error))
		return false;
	mode = (struct vms_code_mode) { .bits = bits ? bits : 64, .is_certain = true };
	const bool done =
		(task ? get_task_code(session, tid, argv[1], &code, error)
		      : get_vcpu_code(session, cpu, bits, argv[1], &code, &mode, error)) &&
		show_code(session, &code, &mode, error);
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
