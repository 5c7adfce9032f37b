/* SPDX-License-Identifier: MIT */
#include "base/open_below.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Opens `path` below `root`. -1 and errno if it fails. */
static int open_in_root(const char *root, const char *path, int flags)
{
	const struct open_how how = {
		.flags = (unsigned)flags | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	const int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -1;
	const int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));
	const int failure = errno;
	close(folder);
	errno = failure;
	return fd;
}

int vms_open_below(const char *root, const char *path)
{
	const int fd = open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	int failure = errno;
	struct stat status;
	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		return fd;
	if (fd >= 0) {
		close(fd);
		failure = EINVAL;
	}
	errno = failure;
	return -1;
}

bool vms_stat_below(const char *root, const char *path, struct stat *ret)
{
	const int fd = open_in_root(root, path, O_PATH);
	if (fd < 0)
		return false;
	const bool done = fstat(fd, ret) == 0;
	close(fd);
	return done;
}
