/* SPDX-License-Identifier: MIT */
#include "socket_directory.h"
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vmscope/error.h>

/* ---- what is left of the dead ------------------------------------------- */

static bool is_socket_of_ours(const char *path)
{
	struct stat status;
	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == getuid();
}

/* The process in the name of a socket, 0: it is not one that socket_directory_path has given. */
static pid_t process_of(const char *name)
{
	char *rest;
	guint64 pid = g_ascii_strtoull(name, &rest, 10);
	bool is_ours = g_ascii_isdigit(*name) && pid <= G_MAXINT &&
		       (g_str_has_prefix(rest, ".qmp") || strcmp(rest, ".agent") == 0);
	return is_ours ? (pid_t)pid : 0;
}

/*
 * Has nobody this socket open? QEMU may live on where vmscope, whose number is in the name, has
 * ended, or in another PID namespace. A socket of another kind never connects: where there is one
 * it says EPROTOTYPE, and whoever listens does not notice.
 */
static bool is_abandoned(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool fits = g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) <
		    sizeof(address.sun_path);
	bool refused = fd >= 0 && fits &&
		       connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
		       errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return refused;
}

static void remove_abandoned(const char *directory)
{
	g_autoptr(GDir) list = g_dir_open(directory, 0, NULL);
	const char *name;
	while (list && (name = g_dir_read_name(list))) {
		g_autofree char *path = g_build_filename(directory, name, NULL);
		pid_t pid = process_of(name);
		bool has_ended = pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
		if (has_ended && is_socket_of_ours(path) && is_abandoned(path))
			unlink(path);
	}
}

/* ---- the directory ------------------------------------------------------ */

char *socket_directory_open(GError **error)
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
	remove_abandoned(path);
	return g_steal_pointer(&path);
}

char *socket_directory_path(const char *directory, const char *name)
{
	char *path = g_strdup_printf("%s/%d.%s", directory, (int)getpid(), name);
	unlink(path); /* of a process that was killed and had our number */
	return path;
}
