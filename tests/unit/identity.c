/* SPDX-License-Identifier: MIT */
#include "machine/host/identity.h"

#include "base/process.h"
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>

/* A child that waits for its end. */
static pid_t start_child(void)
{
	pid_t pid = fork();
	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		for (;;)
			pause();
	}
	return pid;
}

/* Kills it, and waits until it is a zombie. */
static void kill_child(pid_t pid)
{
	siginfo_t end;
	g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
	g_assert_cmpint(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), ==, 0);
}

/* ps(1) is an independent reader of /proc. It tells seconds, where ours are ticks. */
static void test_start_time(void)
{
	struct vms_host_identity self, renamed, child;
	char name[16];
	g_assert_true(vms_host_identity_open(&self, getpid(), NULL));
	g_assert_cmpint(self.pid, ==, getpid());
	g_autofree char *command = g_strdup_printf("ps -o etimes= -p %d", (int)getpid());
	g_autofree char *seconds = NULL, *uptime = NULL;
	g_assert_true(g_spawn_command_line_sync(command, &seconds, NULL, NULL, NULL));
	g_assert_true(g_file_get_contents("/proc/uptime", &uptime, NULL, NULL));
	double age = g_ascii_strtod(uptime, NULL) -
		     (double)self.start_time / (double)sysconf(_SC_CLK_TCK);
	g_assert_cmpfloat_with_epsilon(age, g_ascii_strtod(seconds, NULL), 3);

	/* The name may be anything. */
	prctl(PR_GET_NAME, name);
	prctl(PR_SET_NAME, "a) Z 1 (");
	g_assert_true(vms_host_identity_open(&renamed, getpid(), NULL));
	prctl(PR_SET_NAME, name);
	g_assert_cmpuint(renamed.start_time, ==, self.start_time);

	pid_t pid = start_child();
	g_assert_true(vms_host_identity_open(&child, pid, NULL));
	g_assert_cmpuint(child.start_time, >=, self.start_time);
	kill_child(pid);
	waitpid(pid, NULL, 0);
	vms_host_identity_close(&self);
	vms_host_identity_close(&renamed);
	vms_host_identity_close(&child);
}

static void test_stopped(void)
{
	siginfo_t change;
	pid_t pid = start_child();
	g_assert_false(vms_process_is_stopped(pid));
	g_assert_cmpint(kill(pid, SIGSTOP), ==, 0);
	g_assert_cmpint(waitid(P_PID, (id_t)pid, &change, WSTOPPED), ==, 0);
	g_assert_true(vms_process_is_stopped(pid));
	g_assert_cmpint(kill(pid, SIGCONT), ==, 0);
	g_assert_cmpint(waitid(P_PID, (id_t)pid, &change, WCONTINUED), ==, 0);
	g_assert_false(vms_process_is_stopped(pid));
	kill_child(pid);
	waitpid(pid, NULL, 0);
	g_assert_false(vms_process_is_stopped(pid));
	g_assert_false(vms_process_is_stopped(0));
}

static void test_life(void)
{
	g_autoptr(GError) error = NULL;
	struct vms_host_identity child, zombie, nobody = { 0 };
	pid_t pid = start_child();
	g_assert_true(vms_host_identity_open(&child, pid, &error));
	g_assert_no_error(error);
	g_assert_true(fcntl(child.pidfd, F_GETFD) & FD_CLOEXEC);
	g_assert_true(vms_host_identity_is_alive(&child));
	struct vms_host_identity without_pidfd = child;
	without_pidfd.pidfd = -1;
	g_assert_true(vms_host_identity_is_alive(&without_pidfd));
	struct vms_host_identity reused = without_pidfd;
	reused.start_time--;
	g_assert_false(vms_host_identity_is_alive(&reused));

	kill_child(pid);
	g_assert_false(vms_host_identity_is_alive(&child));
	g_assert_false(vms_host_identity_is_alive(&without_pidfd));
	g_assert_false(vms_host_identity_open(&zombie, pid, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_assert_cmpint(zombie.pid, ==, 0);
	g_clear_error(&error);

	waitpid(pid, NULL, 0);
	g_assert_false(vms_host_identity_is_alive(&child));
	g_assert_false(vms_host_identity_open(&zombie, pid, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_clear_error(&error);
	for (pid_t none = 0; none >= -1; none--) {
		g_assert_false(vms_host_identity_open(&zombie, none, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
		g_clear_error(&error);
	}

	int fd = child.pidfd;
	vms_host_identity_close(&child);
	g_assert_cmpint(fcntl(fd, F_GETFD), <, 0);
	g_assert_cmpint(child.pid, ==, 0);
	vms_host_identity_close(&child);
	g_assert_false(vms_host_identity_is_alive(&nobody));
	vms_host_identity_close(&nobody); /* does not close stdin */
	g_assert_cmpint(fcntl(STDIN_FILENO, F_GETFD), >=, 0);
}

struct listener {
	char *folder, *path;
	int fd;
};

static void bind_listener(struct listener *listener)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	listener->folder = g_dir_make_tmp("vmscope-XXXXXX", NULL);
	listener->path = g_build_filename(listener->folder, "s", NULL);
	g_strlcpy(address.sun_path, listener->path, sizeof(address.sun_path));
	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(listener->fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
}

/* Connects a new socket to a listener, who need not accept it. */
static int connect_to(const struct listener *listener)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	g_strlcpy(address.sun_path, listener->path, sizeof(address.sun_path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	return fd;
}

static void clear_listener(struct listener *listener)
{
	close(listener->fd);
	g_unlink(listener->path);
	g_rmdir(listener->folder);
	g_free(listener->path);
	g_free(listener->folder);
}

/* A child that calls listen(2) on our socket. */
static pid_t start_listening_child(const struct listener *listener)
{
	int ready[2];
	char byte;
	g_assert_cmpint(pipe(ready), ==, 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (listen(listener->fd, 5) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void test_peer(void)
{
	struct listener listener;
	struct vms_host_identity child, self, peer;
	bind_listener(&listener);
	pid_t pid = start_listening_child(&listener);
	int fd = connect_to(&listener);
	g_assert_true(vms_host_identity_open(&child, pid, NULL));
	g_assert_true(vms_host_identity_open(&self, getpid(), NULL));

	g_assert_true(vms_host_identity_open_peer(&peer, fd));
	g_assert_cmpint(peer.pid, ==, pid);
	g_assert_cmpuint(peer.start_time, ==, child.start_time);
	g_assert_true(vms_host_identity_is_alive(&peer));
	g_assert_true(vms_host_identity_is_peer(&child, fd));
	g_assert_false(vms_host_identity_is_peer(&self, fd));
	/* The pid was another process's before. */
	struct vms_host_identity before = child;
	before.start_time--;
	g_assert_false(vms_host_identity_is_peer(&before, fd));

	/* Our socket still listens, its listener has gone. */
	kill_child(pid);
	g_assert_false(vms_host_identity_is_peer(&child, fd));
	waitpid(pid, NULL, 0);
	int later = connect_to(&listener);
	struct vms_host_identity gone;
	g_assert_false(vms_host_identity_open_peer(&gone, later));
	g_assert_cmpint(gone.pid, ==, 0);
	g_assert_false(vms_host_identity_is_peer(&child, later));

	close(fd);
	close(later);
	vms_host_identity_close(&child);
	vms_host_identity_close(&self);
	vms_host_identity_close(&peer);
	clear_listener(&listener);
}

/* No peer at all. */
static void test_no_peer(void)
{
	struct vms_host_identity self, peer;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	g_assert_true(vms_host_identity_open(&self, getpid(), NULL));
	g_assert_false(vms_host_identity_open_peer(&peer, fd));
	g_assert_false(vms_host_identity_open_peer(&peer, file));
	g_assert_false(vms_host_identity_open_peer(&peer, -1));
	g_assert_false(vms_host_identity_is_peer(&self, fd));
	close(fd);
	close(file);
	vms_host_identity_close(&self);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/identity/start-time", test_start_time);
	g_test_add_func("/identity/life", test_life);
	g_test_add_func("/identity/stopped", test_stopped);
	g_test_add_func("/identity/peer", test_peer);
	g_test_add_func("/identity/no-peer", test_no_peer);
	return g_test_run();
}
