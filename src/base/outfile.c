/* SPDX-License-Identifier: MIT */
#include "base/outfile.h"

#include "base/owner.h"
#include "base/path.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

/* How many temporary names to try until one is free. */
#define NAME_TRIES 100
/* Nobody else may read what was found in a guest. */
#define FILE_MODE 0600
/*
 * How many bytes to hand to the disk at once, and how many such pieces may be on their way to it. A
 * cancel waits for one piece.
 */
#define SYNC_PIECE (UINT64_C(8) << 20)
#define SYNC_DEPTH 4

struct vms_outfile {
	char *path;		/* as the caller gave it; for messages */
	struct vms_place place; /* of the target */
	char *temporary;	/* the file's name in that folder until the commit; NULL: no name */
	int fd;
	bool direct;	  /* `fd` is the target itself */
	bool overwrite;	  /* the commit replaces what has the target's name */
	uint64_t written; /* bytes; atomic */
	gint full;	  /* atomic; see vms_outfile_is_full */
};

/* Sets the error for `number` of errno(3), and notes whether the disk is full. Returns false. */
static bool set_file_error(struct vms_outfile *file, const char *what, int number, GError **error)
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

/* ---- temporary names ---------------------------------------------------- */

/* ".NAME.LABEL.NUMBER". The label tells the next run whose file it is. */
static char *temporary_name(const struct vms_outfile *file)
{
	struct vms_owner self = vms_owner_self();
	g_autofree char *label = vms_owner_label(&self);
	/* The target's name is cut, because a file's name may have at most 255 bytes. */
	return g_strdup_printf(".%.160s.%s.%08x", file->place.name, label, g_random_int());
}

/* Gives the owner of a temporary name. False if `name` is no temporary name. */
static bool parse_temporary_name(const char *name, struct vms_owner *ret)
{
	g_autofree char *label = NULL;
	const char *start = name[0] == '.' ? g_strrstr(name, "." VMS_OWNER_PREFIX) : NULL;
	const char *end = start ? strchr(start + 1, '.') : NULL;
	if (!end || strlen(end) != strlen(".01234567"))
		return false;
	label = g_strndup(start + 1, (gsize)(end - start - 1));
	return vms_owner_parse(label, ret) && ret->pid > 0;
}

/* Removes the file if its owner is dead. Logs its name if nobody can tell whether it is. */
static void remove_leftover(const struct vms_outfile *file, const char *name,
			    const struct vms_owner *owner)
{
	g_autofree char *folder = g_path_get_dirname(file->path);
	enum vms_owner_state state = vms_owner_state(owner);
	struct stat status;
	if (fstatat(file->place.folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(status.st_mode) || status.st_uid != geteuid())
		return;
	if (state == VMS_OWNER_DEAD && unlinkat(file->place.folder, name, 0) == 0)
		vms_log(VMS_LOG_WARNING,
			"removed %s/%s, which an earlier vmscope left when it was killed", folder,
			name);
	else if (state == VMS_OWNER_UNKNOWN)
		vms_log(VMS_LOG_WARNING,
			"%s/%s belongs to a vmscope in another container, on another host, or from "
			"before the last boot: remove it unless that vmscope still runs",
			folder, name);
}

static void remove_leftovers(const struct vms_outfile *file)
{
	int fd = openat(file->place.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;
	struct vms_owner owner;
	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		if (parse_temporary_name(entry->d_name, &owner))
			remove_leftover(file, entry->d_name, &owner);
	}
	closedir(folder);
}

/* Calls `make` with temporary names until one does not exist yet. */
static bool make_temporary(struct vms_outfile *file,
			   int (*make)(const struct vms_outfile *file, const char *name, int *ret),
			   int *ret, GError **error)
{
	remove_leftovers(file);
	for (int i = 0; i < NAME_TRIES; i++) {
		g_autofree char *temporary = temporary_name(file);
		if (make(file, temporary, ret) == 0) {
			file->temporary = g_steal_pointer(&temporary);
			return true;
		}
		if (errno != EEXIST)
			break;
	}
	return set_file_error(file, "create", errno, error);
}

/* ---- opening ------------------------------------------------------------ */

static char *fd_path(int fd)
{
	return g_strdup_printf("/proc/self/fd/%d", fd);
}

char *vms_outfile_link(const struct vms_outfile *file)
{
	return fd_path(file->fd);
}

/* A new file without a name. Nothing is left of it, however this process ends. */
static int open_unnamed(const struct vms_outfile *file)
{
	int fd = openat(file->place.folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, FILE_MODE);
	g_autofree char *link = fd_path(fd);
	/* The commit names the file through /proc. */
	if (fd >= 0 && access(link, F_OK) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int create_file(const struct vms_outfile *file, const char *name, int *ret)
{
	*ret = openat(file->place.folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	return *ret < 0 ? -1 : 0;
}

static bool open_new(struct vms_outfile *file, GError **error)
{
	file->fd = open_unnamed(file);
	return file->fd >= 0 || make_temporary(file, create_file, &file->fd, error);
}

/* Opens the target itself: a device, a pipe, or an open file behind a link of /proc. */
static bool open_direct(struct vms_outfile *file, GError **error)
{
	file->direct = true;
	file->fd = openat(file->place.folder, file->place.name,
			  O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
	return file->fd >= 0 || set_file_error(file, "open", errno, error);
}

/* The status of what has the target's name. Its `st_mode` is 0 if there is nothing. */
static struct stat read_target_status(const struct vms_outfile *file)
{
	struct stat status = { 0 };
	if (fstatat(file->place.folder, file->place.name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		status.st_mode = 0;
	return status;
}

static struct vms_outfile *new_outfile(const char *path, bool overwrite, GError **error)
{
	struct vms_outfile *file = g_new0(struct vms_outfile, 1);
	file->fd = -1;
	file->path = g_strdup(path);
	file->overwrite = overwrite;
	if (vms_place_find(&file->place, path, error))
		return file;
	vms_outfile_close(file);
	return NULL;
}

struct vms_outfile *vms_outfile_open(const char *path, GError **error)
{
	g_autoptr(vms_outfile) file = new_outfile(path, true, error);
	if (!file)
		return NULL;
	struct stat target = read_target_status(file);
	bool opened = false;
	if (S_ISDIR(target.st_mode)) {
		set_file_error(file, "write", EISDIR, error);
	} else if (S_ISFIFO(target.st_mode) && !vms_place_trusts(target.st_uid)) {
		/* The user who made the pipe can read what is written into it. */
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_PERMISSION,
			"cannot write %s: it is a named pipe of another user; name another file",
			path);
	} else if (target.st_mode && !S_ISREG(target.st_mode)) {
		opened = open_direct(file, error);
	} else {
		opened = open_new(file, error);
	}
	return opened ? g_steal_pointer(&file) : NULL;
}

struct vms_outfile *vms_outfile_open_random(const char *path, bool overwrite, GError **error)
{
	g_autoptr(vms_outfile) file = new_outfile(path, overwrite, error);
	struct stat link;
	if (!file)
		return NULL;
	mode_t mode = read_target_status(file).st_mode;
	if (mode && !S_ISREG(mode)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot write %s: this file is not written in order, which needs a "
			    "regular file",
			    path);
		return NULL;
	}
	/* A link that leads nowhere is not replaced either. */
	if (!overwrite && (mode || lstat(path, &link) == 0)) {
		set_file_error(file, "create", EEXIST, error);
		return NULL;
	}
	return open_new(file, error) ? g_steal_pointer(&file) : NULL;
}

/* ---- writing ------------------------------------------------------------- */

/* Writes at `offset`, or where the last write ended if that is NULL. */
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
			return set_file_error(file, "write", errno, error);
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
		return set_file_error(file, "write", EFBIG, error);
	return write_all(file, &(off_t) { (off_t)offset }, data, size, error);
}

bool vms_outfile_set_size(struct vms_outfile *file, uint64_t size, GError **error)
{
	if (size > G_MAXINT64)
		return set_file_error(file, "lengthen", EFBIG, error);
	return ftruncate(file->fd, (off_t)size) == 0 ||
	       set_file_error(file, "lengthen", errno, error);
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
		/* This only starts the writing early. Its errors are left to fsync. */
		sync_file_range(file->fd, (off_t)at, SYNC_PIECE, SYNC_FILE_RANGE_WRITE);
		if (at >= SYNC_DEPTH * SYNC_PIECE)
			sync_file_range(file->fd, (off_t)(at - SYNC_DEPTH * SYNC_PIECE), SYNC_PIECE,
					wait);
	}
	return fsync(file->fd) == 0 || set_file_error(file, "write", errno, error);
}

/* ---- committing ----------------------------------------------------------- */

/* Gives a name to a file that has none. */
static int link_file(const struct vms_outfile *file, const char *name, int *ret G_GNUC_UNUSED)
{
	g_autofree char *link = fd_path(file->fd);
	return linkat(AT_FDCWD, link, file->place.folder, name, AT_SYMLINK_FOLLOW);
}

/* Renames the temporary file, but never replaces another file. */
static int rename_to_new(const struct vms_outfile *file)
{
	int folder = file->place.folder;
	int renamed =
		renameat2(folder, file->temporary, folder, file->place.name, RENAME_NOREPLACE);
	/* A file system without RENAME_NOREPLACE. */
	if (renamed < 0 && errno == EINVAL &&
	    (renamed = linkat(folder, file->temporary, folder, file->place.name, 0)) == 0)
		unlinkat(folder, file->temporary, 0);
	return renamed;
}

static bool name_file(struct vms_outfile *file, GError **error)
{
	const struct vms_place *place = &file->place;
	if (file->overwrite) {
		/* linkat(2) does not replace a file, but renameat(2) does. */
		if (!file->temporary && !make_temporary(file, link_file, NULL, error))
			return false;
		if (renameat(place->folder, file->temporary, place->folder, place->name) < 0)
			return set_file_error(file, "replace", errno, error);
	} else if ((file->temporary ? rename_to_new(file) : link_file(file, place->name, NULL)) <
		   0) {
		return set_file_error(file, "create", errno, error);
	}
	g_clear_pointer(&file->temporary, g_free);
	return true;
}

/*
 * Brings the name to the disk, so that it outlives a crash of the host. A folder that may not be
 * read cannot be synced, which is no error.
 */
static void sync_folder(const struct vms_outfile *file)
{
	int fd = openat(file->place.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

bool vms_outfile_commit(struct vms_outfile *file, GError **error)
{
	if (!file->direct) {
		if (fsync(file->fd) < 0)
			return set_file_error(file, "write", errno, error);
		if (!name_file(file, error))
			return false;
		sync_folder(file);
	}
	int closed = close(file->fd);
	file->fd = -1; /* close(2) closes it even when it fails */
	return closed == 0 || set_file_error(file, "close", errno, error);
}

void vms_outfile_close(struct vms_outfile *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	if (file->temporary)
		unlinkat(file->place.folder, file->temporary, 0);
	g_free(file->temporary);
	vms_place_clear(&file->place);
	g_free(file->path);
	g_free(file);
}
