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
/* How much is on its way to the disk at once, in pieces: a cancel waits for one piece. */
#define SYNC_PIECE (UINT64_C(8) << 20)
#define SYNC_DEPTH 4

struct vms_outfile {
	char *path;	 /* as asked for: for messages */
	char *target;	 /* without symbolic links */
	char *temporary; /* its name until it is committed; NULL: none */
	int fd;
	bool direct;	  /* written to the target itself */
	bool overwrite;	  /* what has the target's name is replaced */
	uint64_t written; /* atomic */
	gint full;	  /* atomic */
};

/* Records what kept a file from being written; the code is for a reaction, the text for people. */
static bool fail(struct vms_outfile *file, const char *what, int number, GError **error)
{
	enum vms_error code = VMS_ERROR_IO;
	if (number == EACCES || number == EPERM || number == EROFS)
		code = VMS_ERROR_PERMISSION;
	else if (number == EEXIST)
		code = VMS_ERROR_EXISTS;
	else if (number == ENOSPC || number == EDQUOT || number == EFBIG)
		g_atomic_int_set(&file->full, 1);
	g_set_error(error, VMS_ERROR, code, "cannot %s %s: %s", what, file->path,
		    g_strerror(number));
	return false;
}

/* Calls `make` with names beside the target until one is new. */
static bool make_temporary(struct vms_outfile *file, int (*make)(const char *name, void *data),
			   void *data, GError **error)
{
	g_autofree char *folder = g_path_get_dirname(file->target);
	g_autofree char *name = g_path_get_basename(file->target);

	for (int i = 0; i < NAME_TRIES; i++) {
		/* Cut, for the temporary name may not be longer than names may be. */
		g_autofree char *temporary =
			g_strdup_printf("%s/.%.200s.%08x", folder, name, g_random_int());
		if (make(temporary, data) == 0) {
			file->temporary = g_steal_pointer(&temporary);
			return true;
		}
		if (errno != EEXIST)
			break;
	}
	return fail(file, "create", errno, error);
}

struct creation {
	int fd;
	mode_t mode;
};

static int create(const char *name, void *data)
{
	struct creation *creation = data;
	creation->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, creation->mode);
	return creation->fd < 0 ? -1 : 0;
}

static char *fd_path(int fd)
{
	return g_strdup_printf("/proc/self/fd/%d", fd);
}

char *vms_outfile_link(const struct vms_outfile *file)
{
	return fd_path(file->fd);
}

/* A new file without a name: nothing is left of it however this process ends. */
static int open_unnamed(const struct vms_outfile *file, mode_t mode)
{
	g_autofree char *folder = g_path_get_dirname(file->target);
	int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	g_autofree char *link = fd_path(fd);
	/* Without /proc it could not be named. */
	if (fd >= 0 && access(link, F_OK) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool open_new(struct vms_outfile *file, mode_t mode, GError **error)
{
	struct creation creation = { open_unnamed(file, mode), mode };
	if (creation.fd < 0 && !make_temporary(file, create, &creation, error))
		return false;
	file->fd = creation.fd;
	return true;
}

static bool open_direct(struct vms_outfile *file, GError **error)
{
	file->direct = true;
	file->fd = open(file->target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return file->fd >= 0 || fail(file, "open", errno, error);
}

static struct vms_outfile *new_outfile(const char *path, bool overwrite)
{
	struct vms_outfile *file = g_new0(struct vms_outfile, 1);
	g_autofree char *real = realpath(path, NULL);

	file->fd = -1;
	file->path = g_strdup(path);
	file->target = g_strdup(real ? real : path);
	file->overwrite = overwrite;
	return file;
}

struct vms_outfile *vms_outfile_open(const char *path, mode_t mode, GError **error)
{
	g_autoptr(vms_outfile) file = new_outfile(path, true);
	struct stat old;
	bool exists = stat(path, &old) == 0;

	if (exists && S_ISDIR(old.st_mode))
		fail(file, "write", EISDIR, error);
	else if (exists && !S_ISREG(old.st_mode) ? open_direct(file, error)
						 : open_new(file, mode, error))
		return g_steal_pointer(&file);
	return NULL;
}

struct vms_outfile *vms_outfile_open_random(const char *path, mode_t mode, bool overwrite,
					    GError **error)
{
	g_autoptr(vms_outfile) file = new_outfile(path, overwrite);
	struct stat old;

	if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot write %s: it is no regular file, and this one is written at "
			    "random",
			    path);
		return NULL;
	}
	if (!overwrite && lstat(path, &old) == 0) {
		fail(file, "create", EEXIST, error);
		return NULL;
	}
	return open_new(file, mode, error) ? g_steal_pointer(&file) : NULL;
}

static bool write_all(struct vms_outfile *file, const off_t *offset, const void *data, size_t size,
		      GError **error)
{
	const char *bytes = data;
	size_t done = 0;

	while (done < size) {
		ssize_t n =
			offset ? pwrite(file->fd, bytes + done, size - done, *offset + (off_t)done)
			       : write(file->fd, bytes + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(file, "write", errno, error);
		done += (size_t)n;
	}
	__atomic_fetch_add(&file->written, size, __ATOMIC_RELAXED);
	return true;
}

bool vms_outfile_write(struct vms_outfile *file, const void *data, size_t size, GError **error)
{
	return write_all(file, NULL, data, size, error);
}

bool vms_outfile_write_at(struct vms_outfile *file, uint64_t offset, const void *data, size_t size,
			  GError **error)
{
	if (offset > G_MAXINT64 - size)
		return fail(file, "write", EFBIG, error);
	return write_all(file, &(off_t) { (off_t)offset }, data, size, error);
}

bool vms_outfile_set_size(struct vms_outfile *file, uint64_t size, GError **error)
{
	if (size > G_MAXINT64)
		return fail(file, "lengthen", EFBIG, error);
	return ftruncate(file->fd, (off_t)size) == 0 || fail(file, "lengthen", errno, error);
}

uint64_t vms_outfile_size(const struct vms_outfile *file)
{
	struct stat now;
	return fstat(file->fd, &now) == 0 ? (uint64_t)now.st_size : 0;
}

uint64_t vms_outfile_written(const struct vms_outfile *file)
{
	return __atomic_load_n(&file->written, __ATOMIC_RELAXED);
}

bool vms_outfile_is_full(const struct vms_outfile *file)
{
	return g_atomic_int_get(&file->full);
}

bool vms_outfile_sync(struct vms_outfile *file, const gint *cancelled, GError **error)
{
	const unsigned wait =
		SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
	uint64_t end = vms_outfile_size(file) + SYNC_DEPTH * SYNC_PIECE;
	for (uint64_t at = 0; at < end; at += SYNC_PIECE) {
		if (g_atomic_int_get(cancelled)) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_CANCELLED,
				    "writing %s was cancelled", file->path);
			return false;
		}
		/* Only to get ahead: whether all is well, fsync tells. */
		sync_file_range(file->fd, (off_t)at, SYNC_PIECE, SYNC_FILE_RANGE_WRITE);
		if (at >= SYNC_DEPTH * SYNC_PIECE)
			sync_file_range(file->fd, (off_t)(at - SYNC_DEPTH * SYNC_PIECE), SYNC_PIECE,
					wait);
	}
	return fsync(file->fd) == 0 || fail(file, "write", errno, error);
}

/* Names a file that has no name. */
static int link_to(const char *name, void *data)
{
	const struct vms_outfile *file = data;
	g_autofree char *link = fd_path(file->fd);
	return linkat(AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/* As rename, but never over something. */
static int rename_to_new(const char *old, const char *new)
{
	int renamed = renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_NOREPLACE);
	/* Not every file system can. */
	if (renamed < 0 && errno == EINVAL && (renamed = link(old, new)) == 0)
		unlink(old);
	return renamed;
}

static bool give_name(struct vms_outfile *file, GError **error)
{
	if (file->overwrite) {
		if (!file->temporary && !make_temporary(file, link_to, file, error))
			return false;
		if (rename(file->temporary, file->target) < 0)
			return fail(file, "replace", errno, error);
	} else if ((file->temporary ? rename_to_new(file->temporary, file->target)
				    : link_to(file->target, file)) < 0) {
		return fail(file, "create", errno, error);
	}
	g_clear_pointer(&file->temporary, g_free);
	return true;
}

/* The name is to outlive a crash of the host, too. Not every folder may be opened for that. */
static void sync_folder(const struct vms_outfile *file)
{
	g_autofree char *folder = g_path_get_dirname(file->target);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

bool vms_outfile_commit(struct vms_outfile *file, GError **error)
{
	if (!file->direct) {
		if (fsync(file->fd) < 0)
			return fail(file, "write", errno, error);
		if (!give_name(file, error))
			return false;
		sync_folder(file);
	}
	int closed = close(file->fd);
	file->fd = -1; /* closed even where an error is reported */
	return closed == 0 || fail(file, "close", errno, error);
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
