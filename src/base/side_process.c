/* SPDX-License-Identifier: MIT */
#include "base/side_process.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Closes all file descriptors but those to keep. */
static void close_other_files(const struct vms_side_work *work)
{
	int last = STDIN_FILENO - 1;
	for (size_t round = 0; round < work->n_keep; round++) {
		int next = INT_MAX;
		for (size_t i = 0; i < work->n_keep; i++) {
			if (work->keep[i] > last && work->keep[i] < next)
				next = work->keep[i];
		}
		if (next == INT_MAX)
			break;
		if (next > last + 1)
			syscall(SYS_close_range, (unsigned)last + 1, (unsigned)next - 1, 0);
		last = next;
	}
	syscall(SYS_close_range, (unsigned)last + 1, ~0U, 0);
}

/* Leaves the tool's control group: systemd may kill that as a whole. */
static void leave_control_group(void)
{
	int fd = open("/sys/fs/cgroup/cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t moved = write(fd, "0", 1);
	(void)moved; /* if it is not allowed, the process stays in the group */
	close(fd);
}

/* Closes `ready` as soon as signals that are meant for the parent do not reach this process. */
G_NORETURN static void begin_life(const struct vms_side_work *work, int ready)
{
	setsid();
	prctl(PR_SET_NAME, work->name);
	/* One that is stopped while the tool dies continues, and ends by itself. */
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	if (!work->stays_in_group)
		leave_control_group();
	close(ready);
	close_other_files(work);
	work->live(work->data);
	_exit(0);
}

/*
 * The fork runs no handlers of the C library, and its end raises no SIGCHLD. Signals are blocked
 * before the fork, and stay blocked in the new process.
 */
pid_t vms_side_process_start(const struct vms_side_work *work)
{
	sigset_t all, before;
	int ready[2];
	char byte;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
	if (pid == 0)
		begin_life(work, ready[1]);
	int cause = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ready[1]);
	while (pid > 0 && read(ready[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(ready[0]);
	return pid > 0 ? pid : -cause;
}

bool vms_side_process_is_alive(pid_t pid)
{
	return pid > 0 && waitpid(pid, NULL, __WCLONE | WNOHANG) == 0;
}

bool vms_side_process_reap(pid_t pid, int timeout_ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	if (fd >= 0) {
		poll(&poller, 1, timeout_ms);
		close(fd);
	}
	return waitpid(pid, NULL, __WCLONE | WNOHANG) != 0;
}

bool vms_process_stands_still(const char *stat_path)
{
	char stat[128];
	int fd = open(stat_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	stat[n] = 0;
	const char *name_end = strrchr(stat, ')');
	return name_end && name_end[1] == ' ' && memchr("TtZX", name_end[2], 4);
}
