/* SPDX-License-Identifier: MIT */
/* vmscope run: start QEMU so that vmscope can reach it. */
#include "commands.h"
#include "launch.h"
#include <errno.h>
#include <unistd.h>

static bool run(struct session *session, int argc, char **argv, GError **error)
{
	gboolean no_agent = FALSE;
	const GOptionEntry entries[] = { { "no-agent", 0, 0, G_OPTION_ARG_NONE, &no_agent,
					   "Start QEMU without vmscope's agent in it", NULL },
					 /* Known only for saying why it is refused. */
					 { "core", 'c', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME,
					   &session->core, NULL, NULL },
					 { NULL } };
	if (!session_parse(session, entries, &argc, &argv, 0, 0, error))
		return false;
	if (!session->launch) {
		usage_error(error, "no command: vmscope run -- qemu-system-x86_64 …");
		return false;
	}
	struct launch launch;
	if (launch_prepare(session->launch, no_agent ? LAUNCH_WITHOUT_AGENT : LAUNCH_TRY_AGENT,
			   &launch, error)) {
		execvp(launch.words[0], launch.words);
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", launch.words[0],
			    g_strerror(errno));
	}
	launch_clear(&launch);
	return false;
}

const struct command command_run = {
	.name = "run",
	.arguments = "-- qemu-system-x86_64 …",
	.summary = "Start QEMU so that vmscope can reach it",
	.options = SESSION_RUNNING,
	.run = run,
};
