/* SPDX-License-Identifier: MIT */
#include "launch.h"
#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REACH_TRIES    100
#define END_TRIES      50
#define REACH_PAUSE_US 100000

/* A directory of ours with mode 0700, made if it is not there. */
static char *socket_directory(GError **error)
{
	const char *runtime = g_getenv("XDG_RUNTIME_DIR");
	g_autofree char *path =
		runtime ? g_build_filename(runtime, "vmscope", NULL)
			: g_strdup_printf("%s/vmscope-%u", g_get_tmp_dir(), (unsigned)getuid());
	struct stat status;
	if (g_mkdir_with_parents(path, 0700) != 0 || lstat(path, &status) != 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make %s for QMP sockets: %s",
			    path, g_strerror(errno));
		return NULL;
	}
	if (!S_ISDIR(status.st_mode) || status.st_uid != getuid() || (status.st_mode & 0077)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot use %s for QMP sockets: it must be a directory of yours that "
			    "nobody else can enter (mode 0700)",
			    path);
		return NULL;
	}
	return g_steal_pointer(&path);
}

char **launch_command(char *const *command, pid_t pid, char **socket, GError **error)
{
	g_autofree char *directory = socket_directory(error);
	if (!directory)
		return NULL;
	*socket = g_strdup_printf("%s/%d.qmp", directory, (int)pid);
	GPtrArray *words = g_ptr_array_new();
	for (; *command; command++)
		g_ptr_array_add(words, g_strdup(*command));
	g_ptr_array_add(words, g_strdup("-qmp"));
	g_ptr_array_add(words, g_strdup_printf("unix:%s,server=on,wait=off", *socket));
	g_ptr_array_add(words, NULL);
	return (char **)g_ptr_array_free(words, FALSE);
}

/* Waits for the socket of a QEMU that is starting. */
static bool wait_for(const char *program, const char *socket, pid_t pid, GError **error)
{
	for (unsigned i = 0; i < REACH_TRIES; i++) {
		if (waitpid(pid, NULL, WNOHANG) == pid) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
				    "%s ended before it could be reached: see what it printed",
				    program);
			return false;
		}
		if (g_file_test(socket, G_FILE_TEST_EXISTS))
			return true;
		g_usleep(REACH_PAUSE_US);
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
		    "%s did not open its QMP socket %s within 10 s: is it QEMU?", program, socket);
	return false;
}

struct vms_machine *launch_start(char *const *command, pid_t *pid, GError **error)
{
	g_autofree char *socket = NULL;
	g_auto(GStrv) words = launch_command(command, getpid(), &socket, error);
	if (!words)
		return NULL;
	g_autoptr(GError) cause = NULL;
	GPid child;
	if (!g_spawn_async(NULL, words, NULL,
			   G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH |
				   G_SPAWN_CHILD_INHERITS_STDIN,
			   NULL, NULL, &child, &cause)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", words[0],
			    cause->message);
		return NULL;
	}
	*pid = child;
	if (!wait_for(words[0], socket, child, error))
		return NULL;
	return vms_machine_open_qmp(socket, error);
}

void launch_end(pid_t pid)
{
	if (pid == 0)
		return;
	kill(pid, SIGTERM);
	for (unsigned i = 0; i < END_TRIES; i++) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return;
		g_usleep(REACH_PAUSE_US);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
