/* SPDX-License-Identifier: MIT */
/*
 * Runs shell commands for the host. A line on the virtio port is a command; the answer is chunks
 * of its output, each after its length as a little-endian 32-bit number; a length of 0 ends the
 * output and the exit status follows as one more number. Runs as the guest's first process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_all(int port, const void *data, size_t size)
{
	const char *next = data;

	while (size > 0) {
		ssize_t n = write(port, next, size);

		if (n > 0) {
			next += n;
			size -= (size_t)n;
		} else {
			usleep(10000); /* the host has disconnected or is slow */
		}
	}
}

static void send_number(int port, uint32_t number)
{
	send_all(port, &number, sizeof(number));
}

/* One byte at a time is fast enough for commands. */
static bool read_line(int port, char *line, size_t size)
{
	size_t n = 0;

	for (;;) {
		char c;
		ssize_t got = read(port, &c, 1);

		if (got <= 0) { /* nobody is connected */
			usleep(20000);
			continue;
		}
		if (c == '\n')
			break;
		if (n + 1 < size)
			line[n++] = c;
	}
	line[n] = '\0';
	return n > 0;
}

static void run(int port, const char *command)
{
	static char chunk[65536];
	int output[2];
	pid_t pid;
	int status = 0;
	ssize_t n;

	if (pipe2(output, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		send_number(port, 0);
		send_number(port, 255);
		return;
	}
	if (pid == 0) {
		signal(SIGCHLD, SIG_DFL);
		dup2(output[1], 1);
		dup2(output[1], 2);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(output[1]);
	while ((n = read(output[0], chunk, sizeof(chunk))) > 0) {
		send_number(port, (uint32_t)n);
		send_all(port, chunk, (size_t)n);
	}
	close(output[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* Orphans become children of the first process. */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	send_number(port, 0);
	send_number(port, WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 128);
}

int main(int argc, char **argv)
{
	static char line[65536];
	int port = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

	setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin", 1);
	if (port < 0) {
		/* A guest without a port is for those who only look at it. */
		for (;;)
			pause();
	}
	for (;;) {
		if (read_line(port, line, sizeof(line)))
			run(port, line);
	}
}
