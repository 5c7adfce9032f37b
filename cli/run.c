/* SPDX-License-Identifier: MIT */
/* vmscope run: starts QEMU so that vmscope can reach it. */
#include "commands.h"
#include "launch.h"
#include "run_calls.h"
#include <errno.h>
#include <unistd.h>

/* Replaces this process by QEMU. */
static bool exec_qemu(struct session *session, bool no_agent, GError **error)
{
	g_autoptr(vms_launch) launch = launch_prepare(
		session->launch, no_agent ? VMS_LAUNCH_WITHOUT_AGENT : VMS_LAUNCH_TRY_AGENT, false,
		error);
	if (!launch)
		return false;
	char *const *command = vms_launch_command(launch);
	/* After the exec nobody prints what the log still keeps. */
	vms_log_flush();
	execvp(command[0], command);
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", command[0],
		    g_strerror(errno));
	return false;
}

static bool check_options(const struct session *session, bool no_agent, const char *calls,
			  const struct calls_words *words, GError **error)
{
	if (!session->launch)
		usage_error(error, "no command: vmscope run -- qemu-system-x86_64 …");
	else if (calls && no_agent)
		usage_error(error, "--calls needs the agent: leave out --no-agent");
	else if (!calls && (calls_words_given(words) || session->symbols))
		usage_error(error, "options of a call trace need --calls DIR");
	else
		return true;
	return false;
}

static bool run_qemu(struct session *session, int argc, char **argv, GError **error)
{
	gboolean no_agent = FALSE;
	g_autofree char *calls = NULL;
	struct calls_words words = { 0 };
	const GOptionEntry own[] = { { "no-agent", 0, 0, G_OPTION_ARG_NONE, &no_agent,
				       "Start QEMU without the agent in it", NULL },
				     { "calls", 0, 0, G_OPTION_ARG_FILENAME, &calls,
				       "Trace all calls from the first instruction, into DIR",
				       "DIR" },
				     /* Known only so that its refusal can be explained. */
				     { "core", 'c', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME,
				       &session->core, NULL, NULL },
				     { NULL } };
	g_autofree GOptionEntry *entries = calls_entries(&words, own);
	bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
		    check_options(session, no_agent, calls, &words, error) &&
		    (calls ? trace_new_qemu(session, &words, calls, error)
			   : exec_qemu(session, no_agent, error));
	calls_words_clear(&words);
	return done;
}

const struct command command_run = {
	.name = "run",
	.arguments = "-- qemu-system-x86_64 …",
	.summary = "Start QEMU so that vmscope can reach it",
	.options = SESSION_GUEST | SESSION_RUNNING | SESSION_NO_OUTPUT,
	.run = run_qemu,
};
