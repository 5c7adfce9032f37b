/* SPDX-License-Identifier: MIT */
/* One file per command; commands.c lists them. */
#pragma once

#include "session.h"

/* All commands, in the order of the help. */
const struct command *const *list_commands(size_t *n);
/* Returns a command by its name, or NULL. */
const struct command *find_command(const char *name);

extern const struct command command_annotate;
extern const struct command command_calls;
extern const struct command command_cfg;
extern const struct command command_flow;
extern const struct command command_flow_report;
extern const struct command command_trace;
extern const struct command command_core;
extern const struct command command_core_convert;
extern const struct command command_core_info;
extern const struct command command_coverage;
extern const struct command command_diff;
extern const struct command command_disas;
extern const struct command command_dmesg;
extern const struct command command_info;
extern const struct command command_list;
extern const struct command command_mem;
extern const struct command command_modules;
extern const struct command command_ps;
extern const struct command command_record;
extern const struct command command_regs;
extern const struct command command_report;
extern const struct command command_run;
extern const struct command command_sample;
extern const struct command command_stack;
extern const struct command command_symbol;
extern const struct command command_top;
