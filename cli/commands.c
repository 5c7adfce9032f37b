/* SPDX-License-Identifier: MIT */
#include "commands.h"
#include <string.h>

static const struct command *const commands[] = {
	&command_sample,       &command_calls,	     &command_list,   &command_info,
	&command_stack,	       &command_regs,	     &command_ps,     &command_modules,
	&command_symbol,       &command_mem,	     &command_disas,  &command_cfg,
	&command_flow,	       &command_flow_report, &command_trace,  &command_dmesg,
	&command_run,	       &command_coverage,    &command_core,   &command_core_info,
	&command_core_convert, &command_record,	     &command_report, &command_diff,
	&command_annotate,     &command_top,
};

const struct command *const *list_commands(size_t *n)
{
	*n = G_N_ELEMENTS(commands);
	return commands;
}

const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	}
	return NULL;
}
