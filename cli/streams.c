/* SPDX-License-Identifier: MIT */
#include "streams.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

/* SIGPIPE's handler before streams_prepare, inherited from the process that started this one. */
static void (*inherited)(int) = SIG_DFL;

bool streams_prepare(void)
{
	inherited = signal(SIGPIPE, SIG_IGN);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* open() takes the lowest free number, which is this one. */
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return false;
	}
	return true;
}

/* Ends the process by SIGPIPE. Returns if it was started with that signal ignored. */
static void end_by_sigpipe(void)
{
	vms_log_flush();
	signal(SIGPIPE, inherited);
	raise(SIGPIPE);
}

bool streams_print(const GString *text, GError **error)
{
	if (fwrite(text->str, 1, text->len, stdout) == text->len && fflush(stdout) == 0)
		return true;
	int number = errno;
	if (number == EPIPE)
		end_by_sigpipe();
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot write to standard output: %s",
		    g_strerror(number));
	return false;
}
