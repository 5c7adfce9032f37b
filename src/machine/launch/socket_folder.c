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

/* ---- what is left of the dead ------------------------------------------- */

static bool is_socket_of_ours(const char *path)
{
	struct stat status;
	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == geteuid();
}

/* The process in the name of a socket, 0: it is not one that vms_socket_folder_path has given. */
static pid_t process_of(const char *name)
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

/* ---- the folder ----------------------------------------------------------- */

bool vms_socket_folder_open(struct vms_socket_folder *folder, GError **error)
{
	static gint next_serial;
	const char *runtime = g_getenv("XDG_RUNTIME_DIR");
	folder->serial = (unsigned)g_atomic_int_add(&next_serial, 1);
	folder->path =
		runtime ? g_build_filename(runtime, "vmscope", NULL)
			: g_strdup_printf("%s/vmscope-%u", g_get_tmp_dir(), (unsigned)geteuid());
	if (!vms_private_folder_make(folder->path, error)) {
		g_prefix_error(error, "there is no place for QEMU's sockets: ");
		return false;
	}
	remove_abandoned(folder->path);
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
	unlink(path); /* of a process that was killed and had our number */
	return path;
}
