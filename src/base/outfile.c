/* SPDX-License-Identifier: MIT */
#include "base/outfile.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>

#define NAME_TRIES 100

struct vms_outfile {
	char *path;	 /* as asked for: for messages */
	char *target;	 /* without symbolic links */
	char *temporary; /* NULL when written directly, or renamed */
	int fd;
};

static bool fail(const struct vms_outfile *file, const char *what, int number, GError **error)
{
	bool refused = number == EACCES || number == EPERM || number == EROFS;
	g_set_error(error, VMS_ERROR, refused ? VMS_ERROR_PERMISSION : VMS_ERROR_IO,
		    "cannot %s %s: %s", what, file->path, g_strerror(number));
	return false;
}

/* A new file beside the target, of a name that no other has. */
static bool open_temporary(struct vms_outfile *file, mode_t mode, GError **error)
{
	g_autofree char *folder = g_path_get_dirname(file->target);
	g_autofree char *name = g_path_get_basename(file->target);

	for (int i = 0; i < NAME_TRIES; i++) {
		/* Cut, for the temporary name may not be longer than names may be. */
		g_autofree char *temporary =
			g_strdup_printf("%s/.%.200s.%08x", folder, name, g_random_int());
		file->fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (file->fd >= 0) {
			file->temporary = g_steal_pointer(&temporary);
			return true;
		}
		if (errno != EEXIST)
			break;
	}
	return fail(file, "create", errno, error);
}

static bool open_direct(struct vms_outfile *file, GError **error)
{
	file->fd = open(file->target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return file->fd >= 0 || fail(file, "open", errno, error);
}

struct vms_outfile *vms_outfile_open(const char *path, mode_t mode, GError **error)
{
	g_autoptr(vms_outfile) file = g_new0(struct vms_outfile, 1);
	g_autofree char *real = realpath(path, NULL);
	struct stat old;

	file->fd = -1;
	file->path = g_strdup(path);
	file->target = g_strdup(real ? real : path);
	bool exists = stat(path, &old) == 0;
	bool direct = exists && !S_ISREG(old.st_mode);
	if (exists && S_ISDIR(old.st_mode)) {
		fail(file, "write", EISDIR, error);
		return NULL;
	}
	if (!(direct ? open_direct(file, error) : open_temporary(file, mode, error)))
		return NULL;
	return g_steal_pointer(&file);
}

bool vms_outfile_write(struct vms_outfile *file, const void *data, size_t size, GError **error)
{
	const char *next = data;

	while (size > 0) {
		ssize_t n = write(file->fd, next, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(file, "write", errno, error);
		next += n;
		size -= (size_t)n;
	}
	return true;
}

bool vms_outfile_commit(struct vms_outfile *file, GError **error)
{
	if (file->temporary && fsync(file->fd) < 0)
		return fail(file, "write", errno, error);
	int closed = close(file->fd);
	file->fd = -1; /* closed even where an error is reported */
	if (closed < 0)
		return fail(file, "close", errno, error);
	if (file->temporary && rename(file->temporary, file->target) < 0)
		return fail(file, "replace", errno, error);
	g_clear_pointer(&file->temporary, g_free);
	return true;
}

void vms_outfile_close(struct vms_outfile *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	if (file->temporary)
		unlink(file->temporary);
	g_free(file->temporary);
	g_free(file->target);
	g_free(file->path);
	g_free(file);
}
