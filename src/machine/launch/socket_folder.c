/* SPDX-License-Identifier: MIT */
#include "machine/launch/socket_folder.h"

#include "base/private_folder.h"
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- sockets of processes that have ended -------------------------------- */

static bool is_own_socket(const char *path)
{
	struct stat status;
	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == geteuid();
}

/* Returns the pid in the name of a socket, or 0 if vms_socket_folder_path did not make the name. */
static pid_t parse_pid(const char *name)
{
	char *rest;
	guint64 pid = g_ascii_strtoull(name, &rest, 10);
	if (*rest == '-')
		g_ascii_strtoull(rest + 1, &rest, 10);
	if (*rest == '-')
		g_ascii_strtoull(rest + 1, &rest, 10);
	bool is_ours = g_ascii_isdigit(*name) && pid <= G_MAXINT &&
		       (g_str_has_prefix(rest, ".qmp") || strcmp(rest, ".agent") == 0);
	return is_ours ? (pid_t)pid : 0;
}

/*
 * True if no process has this socket open. The pid in the name is not enough: vmscope may have
 * ended while its QEMU still runs, or may be in another PID namespace. The test connects with
 * another type of socket: if a process listens, the error is EPROTOTYPE, and that process does not
 * notice.
 */
static bool has_no_listener(const char *path)
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

static void remove_dead_sockets(const char *directory)
{
	g_autoptr(GDir) list = g_dir_open(directory, 0, NULL);
	const char *name;
	while (list && (name = g_dir_read_name(list))) {
		g_autofree char *path = g_build_filename(directory, name, NULL);
		pid_t pid = parse_pid(name);
		bool has_ended = pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
		if (has_ended && is_own_socket(path) && has_no_listener(path))
			unlink(path);
	}
}

/* ---- the folder ----------------------------------------------------------- */

bool vms_socket_folder_open(struct vms_socket_folder *folder, GError **error)
{
	static gint next_serial;
	g_autoptr(GError) failure = NULL;
	folder->serial = (unsigned)g_atomic_int_add(&next_serial, 1);
	folder->path = vms_private_folder_runtime(&failure);
	if (!folder->path && !failure)
		folder->path = vms_private_folder_temporary(&failure);
	if (!folder->path) {
		g_propagate_prefixed_error(error, g_steal_pointer(&failure),
					   "cannot make a folder for QEMU's sockets: ");
		return false;
	}
	remove_dead_sockets(folder->path);
	return true;
}

void vms_socket_folder_clear(struct vms_socket_folder *folder)
{
	g_clear_pointer(&folder->path, g_free);
}

char *vms_socket_folder_path(const struct vms_socket_folder *folder, const char *name)
{
	g_autofree char *serial = g_strdup_printf("-%u", folder->serial);
	char *path = g_strdup_printf("%s/%d%s.%s", folder->path, (int)getpid(),
				     folder->serial ? serial : "", name);
	unlink(path); /* left by a process that was killed and had the same pid */
	return path;
}
