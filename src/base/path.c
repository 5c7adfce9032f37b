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

/* How many symbolic links to follow in one path; the kernel's limit (path_resolution(7)). */
#define LINKS_MAX 40

/* A path that is being followed. */
struct walk {
	int folder;	/* O_PATH: the folder that was reached */
	char *name;	/* the part of the path that is looked at now */
	bool is_last;	/* nothing follows that part */
	char *rest;	/* what follows that part */
	unsigned links; /* how many were followed */
};

/* Continues the walk in another folder, whose descriptor it takes over. False if that is -1. */
static bool enter_folder(struct walk *walk, int folder)
{
	if (folder < 0)
		return false;
	close(walk->folder);
	walk->folder = folder;
	return true;
}

/* Takes the next part off the rest of the path. False if nothing is left. */
static bool take_part(struct walk *walk)
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

/* Puts the text of the link, whose descriptor is `link`, before the rest of the path. */
static bool follow_link(struct walk *walk, int link)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	char *rest = g_strconcat(text, walk->rest, NULL);
	g_free(walk->rest);
	walk->rest = rest;
	return text[0] != '/' || enter_folder(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* True for a folder of /proc. Links there lead to open files, which their text need not name. */
static bool is_in_proc(int folder)
{
	struct statfs fs;
	return fstatfs(folder, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Sets the error for `number` of errno(3). Returns false. */
static bool set_path_error(const char *path, int number, GError **error)
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

/* Goes through a link. Sets *done if the link is the place itself. */
static bool pass_link(struct walk *walk, const char *path, int link, uid_t owner, bool *done,
		      GError **error)
{
	if (!vms_place_trusts(owner)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot use %s: it leads through the symbolic link %s of another user "
			    "(%u); name the place to which that link leads",
			    path, walk->name, (unsigned)owner);
		return false;
	}
	if (++walk->links > LINKS_MAX)
		return set_path_error(path, ELOOP, error);
	bool in_proc = is_in_proc(walk->folder);
	*done = in_proc && walk->is_last;
	if (*done)
		return true;
	bool passed = in_proc ? enter_folder(walk, openat(walk->folder, walk->name,
							  O_PATH | O_DIRECTORY | O_CLOEXEC))
			      : follow_link(walk, link);
	return passed || set_path_error(path, errno, error);
}

/*
 * Goes through one part of the path. The part is opened first, so that nobody can put something
 * else in its place between the check and the next step.
 */
static bool pass_part(struct walk *walk, const char *path, bool *done, GError **error)
{
	struct stat file;
	int fd = openat(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		*done = walk->is_last && errno == ENOENT;
		return *done || set_path_error(path, errno, error);
	}
	bool passed = fstat(fd, &file) == 0 || set_path_error(path, errno, error);
	if (passed && S_ISLNK(file.st_mode)) {
		passed = pass_link(walk, path, fd, file.st_uid, done, error);
	} else if (passed && walk->is_last) {
		*done = true;
	} else if (passed) {
		enter_folder(walk, fd);
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
	bool done = false, passed = walk.folder >= 0 || set_path_error(path, errno, error);
	while (passed && !done) {
		if (take_part(&walk)) {
			passed = pass_part(&walk, path, &done, error);
		} else { /* the path is "/", or leads to it: the place is the folder itself */
			g_free(walk.name);
			walk.name = g_strdup(".");
			done = true;
		}
	}
	*ret = (struct vms_place) { .folder = -1 };
	if (passed)
		*ret = (struct vms_place) { walk.folder, g_steal_pointer(&walk.name) };
	else if (walk.folder >= 0)
		close(walk.folder);
	g_free(walk.rest);
	g_free(walk.name);
	return passed;
}

void vms_place_clear(struct vms_place *place)
{
	if (place->folder >= 0)
		close(place->folder);
	g_free(place->name);
	*place = (struct vms_place) { .folder = -1 };
}
