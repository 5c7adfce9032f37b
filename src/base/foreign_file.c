/* SPDX-License-Identifier: MIT */
#include "base/foreign_file.h"
#include "base/clock.h"
#include "base/foreign_opener.h"
#include "base/side_process.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS_NS	      UINT64_C(1000000)
#define ANSWER_MAX_NS (2000 * MS_NS) /* of one request */
#define WAIT_NS	      (5000 * MS_NS) /* of all requests, at the start */
#define WAIT_SHARE    20	     /* and one part in so many of the time that passes */
#define LOOK_MS	      50	     /* between two looks at cancellation */
#define LOST_MAX      3		     /* processes that are given up */
#define STEPS_OF_OPEN 2000
#define SOURCE	      "files that others have named"

struct vms_foreign_files {
	gatomicrefcount refs;
	struct vms_budget *budget;
	uint64_t begin_ns;
	GMutex lock; /* guards all that follows */
	struct vms_opener *opener;
	pid_t pid;	     /* of the process; 0: there is none */
	int socket;	     /* to it */
	unsigned generation; /* of the process: files of an earlier one are gone */
	uint64_t n_requests, waited_ns;
	pid_t lost[LOST_MAX];
	unsigned n_lost;
	bool is_told; /* that it has waited too long */
};

struct vms_foreign_file {
	struct vms_foreign_files *files;
	struct stat status;
	int fd;		     /* -1: it stays with the process, and this is used: */
	unsigned generation; /* of that process */
	uint32_t slot;
	uint64_t offset; /* of the bytes that were read last */
	size_t size;
	uint8_t *bytes;
};

struct vms_foreign_files *vms_foreign_files_new(struct vms_budget *budget)
{
	struct vms_foreign_files *files = g_new0(struct vms_foreign_files, 1);
	g_atomic_ref_count_init(&files->refs);
	g_mutex_init(&files->lock);
	files->budget = budget ? vms_budget_ref(budget) : NULL;
	files->begin_ns = vms_clock_now_ns();
	files->socket = -1;
	return files;
}

struct vms_foreign_files *vms_foreign_files_ref(struct vms_foreign_files *files)
{
	g_atomic_ref_count_inc(&files->refs);
	return files;
}

/* ---- the process; the caller holds the lock ----------------------------- */

static bool start_process(struct vms_foreign_files *files)
{
	int sockets[2];
	if (files->pid)
		return true;
	if (files->n_lost == LOST_MAX ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return false;
	if (!files->opener)
		files->opener = g_new0(struct vms_opener, 1);
	files->opener->socket = sockets[1];
	const struct vms_side_work work = {
		.name = "opens-files",
		.live = vms_opener_live,
		.data = files->opener,
		.keep = &sockets[1],
		.n_keep = 1,
		.stays_in_group = true,
	};
	const pid_t pid = vms_side_process_start(&work);
	close(sockets[1]);
	if (pid < 0) {
		close(sockets[0]);
		return false;
	}
	files->pid = pid;
	files->socket = sockets[0];
	files->generation++;
	return true;
}

/* Kills the process, which may hang in the kernel and not end. */
static void give_up_process(struct vms_foreign_files *files)
{
	kill(files->pid, SIGKILL);
	close(files->socket);
	files->lost[files->n_lost++] = files->pid;
	files->pid = 0;
	files->socket = -1;
	g_autofree char *reason =
		g_strdup_printf("a file system did not answer in time%s",
				files->n_lost == LOST_MAX ? ", so no more are opened" : "");
	vms_budget_note_loss(files->budget, SOURCE, reason);
}

void vms_foreign_files_unref(struct vms_foreign_files *files)
{
	if (!files || !g_atomic_ref_count_dec(&files->refs))
		return;
	if (files->pid) {
		close(files->socket);
		kill(files->pid, SIGKILL);
		vms_side_process_reap(files->pid, LOOK_MS);
	}
	for (unsigned i = 0; i < files->n_lost; i++)
		vms_side_process_reap(files->lost[i], 0);
	vms_budget_unref(files->budget);
	g_mutex_clear(&files->lock);
	g_free(files->opener);
	g_free(files);
}

/* ---- requests; the caller holds the lock -------------------------------- */

/* Returns how long requests may still be waited for. */
static uint64_t get_wait_left(const struct vms_foreign_files *files)
{
	const uint64_t passed_ns = vms_clock_now_ns() - files->begin_ns;
	const uint64_t limit_ns = WAIT_NS + passed_ns / WAIT_SHARE;
	return limit_ns - MIN(limit_ns, files->waited_ns);
}

/* Receives a packet. Returns 0, or a number of errno(3). `bytes` has room for a block. */
static int receive(const struct vms_foreign_files *files, struct vms_opener_answer *answer,
		   uint8_t *bytes, int *fd)
{
	struct iovec parts[] = { { answer, sizeof(*answer) }, { bytes, VMS_OPENER_BLOCK } };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = parts,
		.msg_iovlen = bytes ? 2 : 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	*fd = -1;
	const ssize_t n = recvmsg(files->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0)
		return errno;
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(header), sizeof(*fd));
	return n < (ssize_t)sizeof(*answer) ? EPIPE : 0;
}

/* Waits for the answer to the last request. Returns 0, or a number of errno(3). */
static int wait_for_answer(struct vms_foreign_files *files, struct vms_opener_answer *answer,
			   uint8_t *bytes, int *fd)
{
	struct pollfd poller = { .fd = files->socket, .events = POLLIN };
	uint64_t end_ns = vms_clock_now_ns() + MIN(ANSWER_MAX_NS, get_wait_left(files));
	while (!vms_budget_is_cancelled(files->budget)) {
		const int number = receive(files, answer, bytes, fd);
		if (number == 0 && answer->number == files->n_requests)
			return 0;
		if (number == 0 && *fd >= 0)
			close(*fd); /* nobody waits for that answer any more */
		if (number != 0 && number != EAGAIN && number != EINTR)
			return EPIPE;
		if (vms_clock_now_ns() >= end_ns)
			return ETIMEDOUT;
		if (number != 0)
			poll(&poller, 1, LOOK_MS);
		if (vms_budget_hurries(files->budget))
			end_ns = MIN(end_ns, vms_clock_now_ns());
	}
	return ECANCELED;
}

static int note_waiting(struct vms_foreign_files *files)
{
	if (!files->is_told)
		vms_budget_note_loss(files->budget, SOURCE, "their file systems are too slow");
	files->is_told = true;
	return ETIMEDOUT;
}

/* Has a request served. Returns 0, or a number of errno(3). */
static int ask(struct vms_foreign_files *files, struct vms_opener_request *request,
	       struct vms_opener_answer *answer, uint8_t *bytes, int *fd)
{
	if (get_wait_left(files) == 0 || (files->n_lost > 0 && vms_budget_hurries(files->budget)))
		return note_waiting(files);
	if (!start_process(files))
		return files->n_lost == LOST_MAX ? ETIMEDOUT : EAGAIN;
	const uint64_t begin_ns = vms_clock_now_ns();
	request->number = ++files->n_requests;
	int number = send(files->socket, request, sizeof(*request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0
			     ? EPIPE
			     : wait_for_answer(files, answer, bytes, fd);
	files->waited_ns += vms_clock_now_ns() - begin_ns;
	if (number == EPIPE || number == ETIMEDOUT)
		give_up_process(files);
	return number ? number : answer->error;
}

/* ---- files -------------------------------------------------------------- */

/* Writes what is asked for. False if a name is too long. */
static bool write_request(const struct vms_foreign_name *name, struct vms_opener_request *request)
{
	request->kind = VMS_OPENER_OPEN;
	request->device = name->device;
	request->inode = name->inode;
	request->has_process = name->pid > 0;
	if (name->pid > 0 && name->end > 0)
		g_snprintf(request->mapping, sizeof(request->mapping),
			   "/proc/%d/map_files/%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x",
			   (int)name->pid, name->start, name->end);
	if (name->pid > 0)
		g_snprintf(request->root, sizeof(request->root), "/proc/%d/root", (int)name->pid);
	else if (g_strlcpy(request->root, name->root ?: "/", sizeof(request->root)) >=
		 sizeof(request->root))
		return false;
	return g_strlcpy(request->path, name->path ?: "", sizeof(request->path)) <
	       sizeof(request->path);
}

struct vms_foreign_file *vms_foreign_files_open(struct vms_foreign_files *files,
						const struct vms_foreign_name *name,
						struct vms_budget *budget, int *number)
{
	g_autofree struct vms_opener_request *request = g_new0(struct vms_opener_request, 1);
	struct vms_opener_answer answer = { 0 };
	int fd = -1;
	*number = ENAMETOOLONG;
	if (!write_request(name, request))
		return NULL;
	*number = EDQUOT;
	if (!vms_budget_step(budget, STEPS_OF_OPEN))
		return NULL;
	g_mutex_lock(&files->lock);
	*number = ask(files, request, &answer, NULL, &fd);
	const unsigned generation = files->generation;
	g_mutex_unlock(&files->lock);
	if (*number)
		return NULL;
	struct vms_foreign_file *file = g_new0(struct vms_foreign_file, 1);
	file->files = vms_foreign_files_ref(files);
	file->status = answer.status;
	file->fd = fd;
	file->generation = generation;
	file->slot = answer.slot;
	return file;
}

void vms_foreign_file_close(struct vms_foreign_file *file)
{
	if (!file)
		return;
	struct vms_foreign_files *files = file->files;
	if (file->fd >= 0) {
		close(file->fd);
	} else {
		const struct vms_opener_request request = { .kind = VMS_OPENER_CLOSE,
							    .slot = file->slot };
		g_mutex_lock(&files->lock);
		if (files->pid && file->generation == files->generation)
			(void)!send(files->socket, &request, sizeof(request),
				    MSG_NOSIGNAL | MSG_DONTWAIT);
		g_mutex_unlock(&files->lock);
	}
	vms_foreign_files_unref(files);
	g_free(file->bytes);
	g_free(file);
}

const struct stat *vms_foreign_file_status(const struct vms_foreign_file *file)
{
	return &file->status;
}

/* Has the process read the block of the file that `offset` is in. */
static bool read_block(struct vms_foreign_file *file, uint64_t offset)
{
	struct vms_foreign_files *files = file->files;
	struct vms_opener_answer answer = { 0 };
	int fd = -1, number = ESTALE;
	g_autofree struct vms_opener_request *request = g_new0(struct vms_opener_request, 1);
	request->kind = VMS_OPENER_READ;
	request->slot = file->slot;
	request->offset = offset - offset % VMS_OPENER_BLOCK;
	if (!file->bytes)
		file->bytes = g_malloc(VMS_OPENER_BLOCK);
	g_mutex_lock(&files->lock);
	if (files->pid && file->generation == files->generation)
		number = ask(files, request, &answer, file->bytes, &fd);
	g_mutex_unlock(&files->lock);
	file->offset = request->offset;
	file->size = number ? 0 : MIN(answer.size, VMS_OPENER_BLOCK);
	return number == 0;
}

bool vms_foreign_file_read(struct vms_foreign_file *file, uint64_t offset, void *buf, size_t size)
{
	if (file->fd >= 0)
		return pread(file->fd, buf, size, (off_t)offset) == (ssize_t)size;
	for (uint8_t *to = buf; size > 0;) {
		if ((offset < file->offset || offset - file->offset >= file->size) &&
		    !read_block(file, offset))
			return false;
		if (offset - file->offset >= file->size)
			return false;
		const size_t part = MIN(size, file->size - (offset - file->offset));
		memcpy(to, file->bytes + (offset - file->offset), part);
		to += part;
		offset += part;
		size -= part;
	}
	return true;
}

int vms_foreign_file_copy(struct vms_foreign_file *file, uint64_t limit)
{
	if (file->fd >= 0)
		return fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	const uint64_t size = (uint64_t)file->status.st_size;
	const int copy = size <= limit ? memfd_create("foreign-file", MFD_CLOEXEC) : -1;
	g_autofree uint8_t *bytes = g_malloc(VMS_OPENER_BLOCK);
	for (uint64_t at = 0; copy >= 0 && at < size;) {
		const size_t part = MIN(size - at, VMS_OPENER_BLOCK);
		if (!vms_foreign_file_read(file, at, bytes, part) ||
		    pwrite(copy, bytes, part, (off_t)at) != (ssize_t)part) {
			close(copy);
			return -1;
		}
		at += part;
	}
	return copy;
}
