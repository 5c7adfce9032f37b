/* SPDX-License-Identifier: MIT */
/* See base/side_process.h for what this code may do. */
#include "base/foreign_opener.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Not all versions of linux/magic.h have these. */
#define ZFS_MAGIC      0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e

/* ---- file systems ----------------------------------------------------- */

/* True if reads end: the file system is on a local device or in memory, and no user serves it. */
static bool always_answers(int fd)
{
	static const uint32_t magics[] = {
		EXT4_SUPER_MAGIC,  XFS_SUPER_MAGIC,	 BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
		RAMFS_MAGIC,	   F2FS_SUPER_MAGIC,	 SQUASHFS_MAGIC,    EROFS_SUPER_MAGIC_V1,
		ISOFS_SUPER_MAGIC, REISERFS_SUPER_MAGIC, ZFS_MAGIC,	    BCACHEFS_MAGIC,
		HUGETLBFS_MAGIC,
	};
	struct statfs system;
	if (fstatfs(fd, &system) < 0)
		return false;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if ((uint32_t)system.f_type == magics[i])
			return true;
	return false;
}

/* True if stat(2) tells other numbers of a file than the list of mappings does. */
static bool has_other_numbers(int fd)
{
	struct statfs system;
	return fstatfs(fd, &system) == 0 && ((uint32_t)system.f_type == BTRFS_SUPER_MAGIC ||
					     (uint32_t)system.f_type == OVERLAYFS_SUPER_MAGIC);
}

/* ---- opening ---------------------------------------------------------- */

static void write_fd_path(char ret[32], int fd)
{
	char digits[12];
	size_t n = 0, at = sizeof("/proc/self/fd/") - 1;
	memcpy(ret, "/proc/self/fd/", at);
	do
		digits[n++] = (char)('0' + fd % 10);
	while (fd /= 10);
	while (n > 0)
		ret[at++] = digits[--n];
	ret[at] = '\0';
}

/* A file that is not opened yet: to open a device could do anything, and a pipe could wait. */
static int find_below(const char *root, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	const int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -1;
	const int place = (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));
	const int number = errno;
	close(folder);
	errno = number;
	return place;
}

static bool is_meant(const struct vms_opener_request *request, const struct stat *status)
{
	return request->inode == 0 ||
	       (status->st_dev == request->device && status->st_ino == request->inode);
}

/* Finds what is mapped. -1 if that is not allowed, or another file is mapped there now. */
static int find_mapping(const struct vms_opener_request *request)
{
	struct stat status;
	const int place = request->mapping[0] ? open(request->mapping, O_PATH | O_CLOEXEC) : -1;
	if (place < 0 || (fstat(place, &status) == 0 &&
			  (is_meant(request, &status) || has_other_numbers(place))))
		return place;
	close(place);
	return -1;
}

/* True if nobody can see the root of a process: it has ended, or is not this user's. */
static bool is_hidden(const char *root)
{
	const int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0)
		close(folder);
	return folder < 0 && (errno == ENOENT || errno == ESRCH || errno == EACCES);
}

static int find_path(const struct vms_opener_request *request)
{
	struct stat status;
	int place = find_below(request->root, request->path);
	if (place < 0 && request->has_process && request->inode && is_hidden(request->root))
		place = find_below("/", request->path);
	if (place < 0 || (fstat(place, &status) == 0 && is_meant(request, &status)))
		return place;
	close(place);
	errno = EINVAL;
	return -1;
}

/* Opens what was found if it is a regular file. */
static int open_place(int place, struct stat *status)
{
	struct stat found;
	char path[32];
	if (fstat(place, &found) < 0)
		return -1;
	if (!S_ISREG(found.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	write_fd_path(path, place);
	const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, status) == 0 && S_ISREG(status->st_mode) && status->st_dev == found.st_dev &&
	    status->st_ino == found.st_ino)
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

static int open_file(const struct vms_opener_request *request, struct stat *status)
{
	int place = find_mapping(request);
	if (place < 0)
		place = find_path(request);
	if (place < 0)
		return -1;
	const int fd = open_place(place, status);
	const int number = errno;
	close(place);
	errno = number;
	return fd;
}

/* ---- answers ---------------------------------------------------------- */

/* Sends an answer, with the descriptor unless it is negative. False if nobody listens. */
static bool send_answer(struct vms_opener *opener, struct vms_opener_answer *answer, int fd)
{
	struct iovec parts[] = { { answer, sizeof(*answer) }, { opener->bytes, answer->size } };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.header = (struct cmsghdr) { .cmsg_len = CMSG_LEN(sizeof(int)),
						    .cmsg_level = SOL_SOCKET,
						    .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return sendmsg(opener->socket, &message, MSG_NOSIGNAL) >= 0;
}

static uint32_t keep(struct vms_opener *opener, int fd)
{
	for (uint32_t i = 0; i < VMS_OPENER_SLOTS; i++) {
		if (opener->slots[i] >= 0)
			continue;
		opener->slots[i] = fd;
		return i;
	}
	return VMS_OPENER_NONE;
}

static bool serve_open(struct vms_opener *opener, struct vms_opener_answer *answer)
{
	int fd = open_file(&opener->request, &answer->status);
	if (fd < 0) {
		answer->error = errno;
		return send_answer(opener, answer, -1);
	}
	if (!always_answers(fd)) {
		answer->slot = keep(opener, fd);
		if (answer->slot != VMS_OPENER_NONE)
			return send_answer(opener, answer, -1);
		answer->error = EMFILE;
		close(fd);
		return send_answer(opener, answer, -1);
	}
	const bool is_sent = send_answer(opener, answer, fd);
	close(fd);
	return is_sent;
}

static bool serve_read(struct vms_opener *opener, int fd, struct vms_opener_answer *answer)
{
	const ssize_t n =
		pread(fd, opener->bytes, sizeof(opener->bytes), (off_t)opener->request.offset);
	if (n < 0)
		answer->error = errno;
	else
		answer->size = (uint32_t)n;
	return send_answer(opener, answer, -1);
}

static bool serve(struct vms_opener *opener)
{
	const struct vms_opener_request *request = &opener->request;
	struct vms_opener_answer answer = { .number = request->number, .slot = VMS_OPENER_NONE };
	if (request->kind == VMS_OPENER_OPEN)
		return serve_open(opener, &answer);
	int *fd = &opener->slots[request->slot % VMS_OPENER_SLOTS];
	if (request->kind == VMS_OPENER_READ)
		return serve_read(opener, *fd, &answer);
	close(*fd);
	*fd = -1;
	return true;
}

void vms_opener_live(void *data)
{
	struct vms_opener *opener = data;
	ssize_t n = 1;
	for (size_t i = 0; i < VMS_OPENER_SLOTS; i++)
		opener->slots[i] = -1;
	while (n > 0) {
		n = recv(opener->socket, &opener->request, sizeof(opener->request), 0);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n == sizeof(opener->request) && !serve(opener))
			break;
	}
}
