/* SPDX-License-Identifier: MIT */
/* vmscope run: starts QEMU so that vmscope can reach it. */
#include "commands.h"
#include "launch.h"
#include "run_calls.h"
#include "run_coverage.h"
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

struct run_words {
	gboolean no_agent;
	char *calls, *coverage;
	struct calls_words calls_words;
	struct coverage_words coverage_words;
};

static bool check_options(const struct session *session, const struct run_words *words,
			  GError **error)
{
	if (!session->launch)
		usage_error(error, "no command: vmscope run -- qemu-system-x86_64 …");
	else if (words->calls && words->coverage)
		usage_error(error, "--calls and --coverage exclude each other");
	else if ((words->calls || words->coverage) && words->no_agent)
		usage_error(error, "%s needs the agent: leave out --no-agent",
			    words->calls ? "--calls" : "--coverage");
	else if (!words->calls && calls_words_given(&words->calls_words))
		usage_error(error, "options of a call trace need --calls DIR");
	else if (!words->coverage &&
		 (coverage_words_given(&words->coverage_words) || session->json))
		usage_error(error, "options of coverage need --coverage FILE");
	else if (!words->calls && !words->coverage && session->symbols)
		usage_error(error, "--symbols needs --calls DIR or --coverage FILE");
	else if (!words->calls && (session->sysroot || session->debug_folders))
		usage_error(error, "%s needs --calls DIR",
			    session->sysroot ? "--sysroot" : "--debug-dir");
	else
		return true;
	return false;
}

static bool run_with(struct session *session, const struct run_words *words, GError **error)
{
	if (words->calls)
		return trace_new_qemu(session, &words->calls_words, words->calls, error);
	if (words->coverage)
		return cover_new_qemu(session, &words->coverage_words, words->coverage, error);
	return exec_qemu(session, words->no_agent, error);
}

/* Returns the entries of all that can run beside QEMU. The caller frees the array. */
static GOptionEntry *make_entries(struct session *session, struct run_words *words)
{
	GOptionEntry own[5 + COVERAGE_ENTRIES] = {
		{ "no-agent", 0, 0, G_OPTION_ARG_NONE, &words->no_agent,
		  "Start QEMU without the agent in it", NULL },
		{ "calls", 0, 0, G_OPTION_ARG_FILENAME, &words->calls,
		  "Trace all calls from the first instruction, into DIR", "DIR" },
		{ "coverage", 0, 0, G_OPTION_ARG_FILENAME, &words->coverage,
		  "Write which code of the kernel ran, from the first instruction on", "FILE" },
		/* Known only so that its refusal can be explained. */
		{ "core", 'c', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &session->core, NULL,
		  NULL },
	};
	coverage_entries(&words->coverage_words, &own[4]);
	return calls_entries(&words->calls_words, own);
}

static bool run_qemu(struct session *session, int argc, char **argv, GError **error)
{
	struct run_words words = { 0 };
	g_autofree GOptionEntry *entries = make_entries(session, &words);
	bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
		    check_options(session, &words, error) && run_with(session, &words, error);
	g_free(words.calls);
	g_free(words.coverage);
	calls_words_clear(&words.calls_words);
	coverage_words_clear(&words.coverage_words);
	return done;
}

const struct command command_run = {
	.name = "run",
	.arguments = "-- qemu-system-x86_64 …",
	.summary = "Start QEMU so that vmscope can reach it",
	.options = SESSION_GUEST | SESSION_JSON | SESSION_RUNNING | SESSION_NO_OUTPUT,
	.run = run_qemu,
};
