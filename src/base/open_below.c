/* SPDX-License-Identifier: MIT */
#include "base/open_below.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int vms_open_below(const char *root, const char *path)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	const int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -1;
	const int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));
	int failure = errno;
	close(folder);
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
