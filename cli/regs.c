/* SPDX-License-Identifier: MIT */
/* vmscope regs: shows registers of vCPUs. */
#include "commands.h"

/* Adds the registers that `names` lists, or all known ones if the list is empty. */
static bool add_registers(const struct vms_arch *arch, unsigned cpu, const struct vms_regs *regs,
			  char **names, struct vms_table *table, GError **error)
{
	for (unsigned i = 0; !names[0] && i < arch->n_regs; i++) {
		if (vms_regs_have(regs, i))
			vms_table_add(table, (uint64_t)cpu, arch->regs[i].name, regs->value[i]);
	}
	for (; *names; names++) {
		int i = vms_arch_reg(arch, *names);
		if (i < 0 || !vms_regs_have(regs, (unsigned)i)) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
				    "no register \"%s\": \"vmscope regs\" shows all that %s has",
				    *names, arch->name);
			return false;
		}
		vms_table_add(table, (uint64_t)cpu, arch->regs[i].name, regs->value[i]);
	}
	return true;
}

static bool run_regs(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = { { "vcpu", VMS_COLUMN_NUMBER },
						     { "register", VMS_COLUMN_TEXT },
						     { "value", VMS_COLUMN_ADDRESS },
						     { NULL } };
	g_autofree char *cpu = NULL;
	const GOptionEntry options[] = {
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &cpu, "Only vCPU N", "N" }, { NULL }
	};
	unsigned first, last;
	if (!session_parse(session, options, &argc, &argv, 0, -1, error) ||
	    !session_open(session, error) || !session_vcpus(session, cpu, &first, &last, error) ||
	    !vms_machine_hold(session->machine, VMS_ALL_VCPUS, error))
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	bool done = true;
	for (unsigned i = first; done && i <= last; i++) {
		struct vms_regs regs;
		done = vms_machine_all_regs(session->machine, i, &regs, error) &&
		       add_registers(vms_machine_arch(session->machine), i, &regs, argv + 1, table,
				     error);
	}
	if (!vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL))
		return false;
	if (done)
		session_table(session, table);
	return done;
}

const struct command command_regs = {
	.name = "regs",
	.arguments = "[NAME…]",
	.summary = "Registers of every vCPU",
	.options = SESSION_TARGET | SESSION_JSON,
	.run = run_regs,
};
