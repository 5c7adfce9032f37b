/* SPDX-License-Identifier: MIT */
/* vmscope run: start QEMU so that vmscope can reach it. */
#include "commands.h"
#include "launch.h"
#include <errno.h>
#include <unistd.h>

static bool run(struct session *session, int argc, char **argv, GError **error)
{
	const GOptionEntry refused[] = { { "core", 'c', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME,
					   &session->core, NULL, NULL },
					 { NULL } };
	if (!session_parse(session, refused, &argc, &argv, 0, 0, error))
		return false;
	if (!session->launch) {
		usage_error(error, "no command: vmscope run -- qemu-system-x86_64 …");
		return false;
	}
	g_autofree char *socket = NULL;
	g_auto(GStrv) words = launch_command(session->launch, getpid(), &socket, error);
	if (!words)
		return false;
	vms_log(VMS_LOG_INFO, "QMP socket %s", socket);
	execvp(words[0], words);
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", words[0],
		    g_strerror(errno));
	return false;
}

const struct command command_run = {
	.name = "run",
	.arguments = "-- qemu-system-x86_64 …",
	.summary = "Start QEMU so that vmscope can reach it",
	.options = SESSION_RUNNING,
	.run = run,
};
