/* SPDX-License-Identifier: MIT */
/* vmscope stack: shows what every vCPU executes, or where threads execute or wait. */
#include "commands.h"
#include "stack_output.h"
#include "values.h"

#define STATES	       "RSDTtXZPI" /* as ps shows them */
#define HOLD_LIMIT     0.1	   /* s */
#define HOLD_LIMIT_MAX 30.0	   /* s; that of all holds */

struct stack_options {
	char *cpu, *task, *states, *hold_limit;
	uint64_t hold_limit_ns;
	gboolean all, group;
	unsigned tid;
};

typedef struct stack_options stack_options;

static void clear_options(struct stack_options *options)
{
	g_free(options->cpu);
	g_free(options->task);
	g_free(options->states);
	g_free(options->hold_limit);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(stack_options, clear_options)

static bool check_options(struct stack_options *options, GError **error)
{
	double limit_s = HOLD_LIMIT;
	if (!value_unsigned("--task", options->task, 0, G_MAXINT, &options->tid, error) ||
	    !value_number("--hold-limit", options->hold_limit, 0.001, HOLD_LIMIT_MAX,
			  "from 0.001 to 30 s", &limit_s, error))
		return false;
	options->hold_limit_ns = (uint64_t)(limit_s * 1e9);
	if ((options->cpu != NULL) + (options->task != NULL) + options->all > 1)
		usage_error(error, "give one of --cpu, --task and --all");
	else if ((options->states || options->group || options->hold_limit) && !options->all)
		usage_error(error, "--state, --group and --hold-limit need --all");
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
		return walk_all_tasks(session, options->states, options->hold_limit_ns, stacks,
				      error);
	if (!vms_machine_hold(session->machine, VMS_ALL_VCPUS, error))
		return false;
	const bool done = options->task ? walk_task(session, options->tid, stacks, error)
					: walk_vcpus(session, options->cpu, stacks, error);
	return vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL) && done;
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
		{ "hold-limit", 0, 0, G_OPTION_ARG_STRING, &options.hold_limit,
		  "With --all: longest hold of the guest, which then runs for a moment (default "
		  "0.1)",
		  "SECONDS" },
		{ NULL }
	};
	if (!session_parse(session, entries, &argc, &argv, 0, 0, error) ||
	    !check_options(&options, error) || !session_open_guest(session, error))
		return false;
	g_autoptr(GPtrArray) stacks = g_ptr_array_new_with_free_func(free_walked);
	if (!walk_stacks(session, &options, stacks, error))
		return false;
	finish_walks(session, stacks);
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
