/* SPDX-License-Identifier: MIT */
/* vmscope stack: shows what every vCPU executes, or where threads execute or wait. */
#include "commands.h"
#include "stack_output.h"
#include "values.h"

#define STATES "RSDTtXZPI" /* as ps shows them */

struct stack_options {
	char *cpu, *task, *states;
	gboolean all, group;
	unsigned tid;
};

typedef struct stack_options stack_options;

static void clear_options(struct stack_options *options)
{
	g_free(options->cpu);
	g_free(options->task);
	g_free(options->states);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(stack_options, clear_options)

static bool check_options(struct stack_options *options, GError **error)
{
	if (!value_unsigned("--task", options->task, 0, G_MAXINT, &options->tid, error))
		return false;
	if ((options->cpu != NULL) + (options->task != NULL) + options->all > 1)
		usage_error(error, "give one of --cpu, --task and --all");
	else if ((options->states || options->group) && !options->all)
		usage_error(error, "--state and --group need --all");
	else if (options->states &&
		 (!*options->states || options->states[strspn(options->states, STATES)]))
		usage_error(error, "--state: \"%s\" is not of the letters " STATES,
			    options->states);
	else
		return true;
	return false;
}

static bool walk_stacks(struct session *session, const struct stack_options *options,
			GPtrArray *stacks, GError **error)
{
	if (options->all)
		return walk_all_tasks(session, options->states, stacks, error);
	if (options->task)
		return walk_task(session, options->tid, stacks, error);
	return walk_vcpus(session, options->cpu, stacks, error);
}

static bool run_stack(struct session *session, int argc, char **argv, GError **error)
{
	g_auto(stack_options) options = { 0 };
	const GOptionEntry entries[] = {
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &options.cpu, "Only vCPU N", "N" },
		{ "task", 0, 0, G_OPTION_ARG_STRING, &options.task,
		  "Where thread TID of the guest executes or waits", "TID" },
		{ "all", 0, 0, G_OPTION_ARG_NONE, &options.all,
		  "Where all threads of the guest execute or wait", NULL },
		{ "state", 0, 0, G_OPTION_ARG_STRING, &options.states,
		  "With --all: only threads in one of these states, as ps shows them", "LETTERS" },
		{ "group", 0, 0, G_OPTION_ARG_NONE, &options.group,
		  "With --all: threads with the same functions once, the most first", NULL },
		{ NULL }
	};
	if (!session_parse(session, entries, &argc, &argv, 0, 0, error) ||
	    !check_options(&options, error) || !session_open_guest(session, error) ||
	    !vms_machine_hold(session->machine, VMS_ALL_VCPUS, error))
		return false;
	g_autoptr(GPtrArray) stacks = g_ptr_array_new_with_free_func(g_free);
	const bool done = walk_stacks(session, &options, stacks, error);
	if (!vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL))
		return false;
	if (!done)
		return false;
	session_read_names(session, session->guest);
	output_stacks(session, stacks,
		      options.group		    ? STACKS_GROUPED
		      : options.all || options.task ? STACKS_OF_THREADS
						    : STACKS_OF_VCPUS);
	return true;
}

const struct command command_stack = {
	.name = "stack",
	.arguments = "",
	.summary = "Call stacks of every vCPU, or of threads of the guest",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run_stack,
};
