/* SPDX-License-Identifier: MIT */
#include "terminal_keeper.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vmscope/error.h>

#define PIPE 3 /* the keeper's descriptor, after those of the terminal */

struct terminal_keeper {
	pid_t pid;
	int pipe; /* a byte says that all is well; its end, that this process is gone */
};

/* The tool's threads may hold any lock: what runs here must be safe after a fork. */
static void keep_terminal(int pipe_fd, const struct termios *settings, const char *restore)
{
	static const int ignored[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTOU, SIGPIPE
	};
	char byte;
	ssize_t got;
	for (size_t i = 0; i < G_N_ELEMENTS(ignored); i++)
		signal(ignored[i], SIG_IGN);
	prctl(PR_SET_NAME, "vms-terminal"); /* pkill vmscope does not end it, too */
	/* Connections of the tool must end with it. */
	if (dup2(pipe_fd, PIPE) < 0 || close_range(PIPE + 1, ~0U, 0) < 0)
		_exit(1);
	do
		got = read(PIPE, &byte, 1);
	while (got < 0 && errno == EINTR);
	if (got != 0)
		_exit(0);
	tcsetattr(STDOUT_FILENO, TCSANOW, settings);
	/* A terminal that is stopped must not keep it. */
	fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
	got = write(STDOUT_FILENO, restore, strlen(restore));
	fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) & ~O_NONBLOCK);
	_exit(got < 0);
}

struct terminal_keeper *terminal_keeper_start(const char *restore, GError **error)
{
	struct termios settings;
	int ends[2] = { -1, -1 };
	pid_t pid = -1;
	if (tcgetattr(STDOUT_FILENO, &settings) == 0 && pipe2(ends, O_CLOEXEC) == 0)
		pid = fork();
	if (pid == 0) {
		close(ends[1]);
		keep_terminal(ends[0], &settings, restore);
	}
	if (pid < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot use the terminal: %s",
			    g_strerror(errno));
		if (ends[0] >= 0) {
			close(ends[0]);
			close(ends[1]);
		}
		return NULL;
	}
	struct terminal_keeper *keeper = g_new(struct terminal_keeper, 1);
	close(ends[0]);
	keeper->pid = pid;
	keeper->pipe = ends[1];
	return keeper;
}

void terminal_keeper_end(struct terminal_keeper *keeper)
{
	if (!keeper)
		return;
	const ssize_t put = write(keeper->pipe, "", 1);
	if (put != 1)
		kill(keeper->pid, SIGKILL);
	close(keeper->pipe);
	waitpid(keeper->pid, NULL, 0);
	g_free(keeper);
}
