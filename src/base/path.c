/* SPDX-License-Identifier: MIT */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <vmscope/error.h>

/* As the kernel has it (path_resolution(7)). */
#define LINKS_MAX 40

/* A path that is being followed. */
struct walk {
	int folder;   /* O_PATH: where `rest` begins */
	char *rest;   /* not followed yet */
	char *name;   /* its first part */
	bool is_last; /* nothing follows that part */
	unsigned links;
};

/* Goes on in another folder, which is taken over. */
static bool enter(struct walk *walk, int folder)
{
	if (folder < 0)
		return false;
	close(walk->folder);
	walk->folder = folder;
	return true;
}

static bool enter_root(struct walk *walk)
{
	return enter(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Takes the first part off. False where there is none any more. */
static bool next_part(struct walk *walk)
{
	char *start = walk->rest + strspn(walk->rest, "/");
	if (!*start)
		return false;
	size_t size = strcspn(start, "/");
	g_free(walk->name);
	walk->name = g_strndup(start, size);
	g_autofree char *rest = g_strdup(start + size);
	walk->is_last = rest[strspn(rest, "/")] == '\0';
	g_free(walk->rest);
	walk->rest = g_steal_pointer(&rest);
	return true;
}

/* Puts what a link says, which is open, before what is left. */
static bool follow(struct walk *walk, int link)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	char *rest = g_strconcat(text, walk->rest, NULL);
	g_free(walk->rest);
	walk->rest = rest;
	return text[0] != '/' || enter_root(walk);
}

/* Links of /proc lead to what a process has open, which their text need not name. */
static bool is_in_proc(int folder)
{
	struct statfs fs;
	return fstatfs(folder, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static bool fail(const char *path, int number, GError **error)
{
	bool denied = number == EACCES || number == EPERM;
	g_set_error(error, VMS_ERROR, denied ? VMS_ERROR_PERMISSION : VMS_ERROR_IO,
		    "cannot reach %s: %s", path, g_strerror(number));
	return false;
}

bool vms_place_trusts(uid_t owner)
{
	return owner == 0 || owner == geteuid();
}

/* *done: the link is the place itself. */
static bool pass_link(struct walk *walk, const char *path, int link, uid_t owner, bool *done,
		      GError **error)
{
	if (!vms_place_trusts(owner)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot use %s: it leads through the symbolic link %s of another user "
			    "(%u); name the place where that leads",
			    path, walk->name, (unsigned)owner);
		return false;
	}
	if (++walk->links > LINKS_MAX)
		return fail(path, ELOOP, error);
	bool in_proc = is_in_proc(walk->folder);
	*done = in_proc && walk->is_last;
	if (*done)
		return true;
	bool passed = in_proc ? enter(walk, openat(walk->folder, walk->name,
						   O_PATH | O_DIRECTORY | O_CLOEXEC))
			      : follow(walk, link);
	return passed || fail(path, errno, error);
}

/* Goes through one part of the path. What was looked at is what is gone through: it is open. */
static bool pass_part(struct walk *walk, const char *path, bool *done, GError **error)
{
	struct stat file;
	int fd = openat(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		*done = walk->is_last && errno == ENOENT;
		return *done || fail(path, errno, error);
	}
	bool passed = fstat(fd, &file) == 0 || fail(path, errno, error);
	if (passed && S_ISLNK(file.st_mode)) {
		passed = pass_link(walk, path, fd, file.st_uid, done, error);
	} else if (passed && walk->is_last) {
		*done = true;
	} else if (passed) {
		enter(walk, fd);
		return true;
	}
	close(fd);
	return passed;
}

bool vms_place_find(struct vms_place *ret, const char *path, GError **error)
{
	struct walk walk = { .folder = open(path[0] == '/' ? "/" : ".",
					    O_PATH | O_DIRECTORY | O_CLOEXEC),
			     .rest = g_strdup(path) };
	bool done = false, sound = walk.folder >= 0 || fail(path, errno, error);
	while (sound && !done) {
		if (next_part(&walk)) {
			sound = pass_part(&walk, path, &done, error);
		} else { /* "/", or a link to it: the folder itself */
			g_free(walk.name);
			walk.name = g_strdup(".");
			done = true;
		}
	}
	*ret = (struct vms_place) { .folder = -1 };
	if (sound)
		*ret = (struct vms_place) { walk.folder, g_steal_pointer(&walk.name) };
	else if (walk.folder >= 0)
		close(walk.folder);
	g_free(walk.rest);
	g_free(walk.name);
	return sound;
}

void vms_place_clear(struct vms_place *place)
{
	if (place->folder >= 0)
		close(place->folder);
	g_free(place->name);
	*place = (struct vms_place) { .folder = -1 };
}
