/* SPDX-License-Identifier: MIT */
#include "machine/agent/link.h"

#include "base/text.h"
#include "machine/agent/packet_fds.h"
#include "machine/host/connection.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>

#define FDS_MAX 3

/* A received reply. */
struct reply {
	union {
		struct vms_agent_message message;
		struct vms_agent_failure failure;
		struct vms_agent_hello hello;
		char bytes[VMS_AGENT_MAX_MESSAGE];
	};
	size_t size;
	int fds[FDS_MAX];
	unsigned n_fds;
};

static bool set_link_error(const struct vms_agent_link *link, enum vms_error code, const char *what,
			   GError **error)
{
	g_set_error(error, VMS_ERROR, code, "%s: %s", link->stream.peer, what);
	return false;
}

/* ---- messages --------------------------------------------------------- */

bool vms_agent_send(struct vms_agent_link *link, struct vms_agent_message *message, size_t size,
		    int fd, GError **error)
{
	message->magic = VMS_AGENT_MAGIC;
	return vms_stream_write(&link->stream, message, size, fd,
				vms_stream_deadline(&link->stream), error);
}

static void close_fds(struct reply *reply)
{
	while (reply->n_fds > 0)
		close(reply->fds[--reply->n_fds]);
}

static bool receive_reply(struct vms_agent_link *link, uint64_t deadline_ns, struct reply *ret,
			  GError **error)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec buffer = { ret->bytes, sizeof(ret->bytes) };
	struct msghdr message = { .msg_iov = &buffer,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t size;
	ret->n_fds = 0;
	do {
		if (!vms_stream_wait(&link->stream, POLLIN, deadline_ns, error))
			return false;
		size = recvmsg(link->stream.fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (size < 0 && (errno == EAGAIN || errno == EINTR));
	if (size <= 0)
		return set_link_error(link, VMS_ERROR_CLOSED, "the connection was closed", error);
	link->stream.is_late = false;
	ret->n_fds = vms_agent_take_fds(&message, ret->fds, FDS_MAX);
	ret->size = (size_t)size;
	if (ret->size >= sizeof(ret->message) && ret->message.magic == VMS_AGENT_MAGIC)
		return true;
	close_fds(ret);
	return set_link_error(link, VMS_ERROR_PROTOCOL, "its answer is not that of an agent",
			      error);
}

/* Sets the error that the agent reports. Returns false. */
static bool set_reported_error(const struct vms_agent_link *link, struct reply *reply,
			       GError **error)
{
	bool whole = reply->size >= sizeof(reply->failure);
	enum vms_error code = whole && reply->failure.code <= VMS_ERROR_CANCELLED
				      ? (enum vms_error)reply->failure.code
				      : VMS_ERROR_PROTOCOL;
	reply->failure.text[sizeof(reply->failure.text) - 1] = '\0';
	vms_text_clean(reply->failure.text);
	return set_link_error(
		link, code, whole ? reply->failure.text : "it refuses the request without a reason",
		error);
}

/* Receives a message, which must have this kind, at least this size, and `n_fds` descriptors. */
static bool receive_kind(struct vms_agent_link *link, enum vms_agent_kind kind, size_t size,
			 unsigned n_fds, uint64_t deadline_ns, struct reply *ret, GError **error)
{
	if (!receive_reply(link, deadline_ns, ret, error))
		return false;
	if (ret->message.kind == kind && ret->size >= size && ret->n_fds == n_fds)
		return true;
	close_fds(ret);
	if (ret->message.kind == VMS_AGENT_ERROR)
		return set_reported_error(link, ret, error);
	return set_link_error(link, VMS_ERROR_PROTOCOL, "its answer does not match the request",
			      error);
}

bool vms_agent_receive(struct vms_agent_link *link, uint64_t deadline_ns, int *fds, unsigned n_fds,
		       GError **error)
{
	struct reply reply;
	if (!receive_kind(link, VMS_AGENT_OK, sizeof(reply.message), n_fds, deadline_ns, &reply,
			  error))
		return false;
	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = reply.fds[i];
	return true;
}

bool vms_agent_request(struct vms_agent_link *link, struct vms_agent_message *message, size_t size,
		       int fd, int *reply_fds, unsigned n_reply_fds, GError **error)
{
	return vms_agent_send(link, message, size, fd, error) &&
	       vms_agent_receive(link, vms_stream_deadline(&link->stream), reply_fds, n_reply_fds,
				 error);
}

/* ---- the connection --------------------------------------------------- */

void *vms_agent_map(const struct vms_agent_link *link, int fd, uint64_t size, GError **error)
{
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &file) < 0 || file.st_size < 0 ||
	    (uint64_t)file.st_size != size || size > SIZE_MAX) {
		set_link_error(link, VMS_ERROR_PROTOCOL,
			       "the memory that it shares has a wrong size, or is not sealed",
			       error);
		return NULL;
	}
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory != MAP_FAILED)
		return memory;
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "%s: cannot map the memory that it shares: %s",
		    link->stream.peer, g_strerror(errno));
	return NULL;
}

int vms_agent_make_file(const void *data, size_t size, GError **error)
{
	int fd = memfd_create("vmscope-table", MFD_CLOEXEC);
	bool written = fd >= 0 && ftruncate(fd, (off_t)size) == 0;
	for (size_t done = 0; written && done < size;) {
		ssize_t n = pwrite(fd, (const char *)data + done, size - done, (off_t)done);
		written = n > 0 || (n < 0 && errno == EINTR);
		done += n > 0 ? (size_t)n : 0;
	}
	if (written)
		return fd;
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "no memory for a table of %zu bytes: %s", size,
		    g_strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool check_hello(const struct vms_agent_link *link, GError **error)
{
	const struct vms_agent_hello *hello = &link->hello;
	if (hello->version != VMS_AGENT_VERSION) {
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			"%s: its protocol has version %u, but this vmscope has version %d: start "
			"QEMU with the agent of this vmscope",
			link->stream.peer, (unsigned)hello->version, VMS_AGENT_VERSION);
		return false;
	}
	const struct vms_agent_shared *shared = NULL;
	if (hello->max_vcpus < 1 || hello->max_vcpus > VMS_AGENT_MAX_VCPUS ||
	    hello->n_regs > VMS_AGENT_MAX_REGS ||
	    hello->shared_size < sizeof(*shared) + hello->max_vcpus * sizeof(shared->vcpu[0]) ||
	    !memchr(hello->arch, '\0', sizeof(hello->arch)))
		return set_link_error(link, VMS_ERROR_PROTOCOL, "its hello is malformed", error);
	return true;
}

/*
 * The process that listens must be the QEMU, because any program can answer like an agent. This is
 * checked before anything is sent.
 */
static bool find_process(struct vms_agent_link *link, pid_t pid, GError **error)
{
	if (!vms_host_identity_open_peer(&link->process, link->stream.fd)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "%s: cannot tell which process listens there: it has ended, or is in "
			    "another PID namespace; run vmscope where that QEMU is visible",
			    link->stream.peer);
		return false;
	}
	if (!pid || link->process.pid == pid)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
		    "%s: process %d listens there, not process %d", link->stream.peer,
		    (int)link->process.pid, (int)pid);
	return false;
}

/* The process that answers must be the one that listens: it may have passed the socket on. */
static bool check_server(const struct vms_agent_link *link, GError **error)
{
	if (vms_host_identity_serves(&link->process, link->stream.fd))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
		    "%s: process %d has made the socket, but another process answers there",
		    link->stream.peer, (int)link->process.pid);
	return false;
}

static bool exchange_hello(struct vms_agent_link *link, GError **error)
{
	struct vms_agent_greeting request = {
		.message = { .kind = VMS_AGENT_HELLO },
		.features = VMS_AGENT_FEATURES,
	};
	struct reply reply;
	if (!vms_agent_send(link, &request.message, sizeof(request), -1, error) ||
	    !receive_kind(link, VMS_AGENT_HELLO, offsetof(struct vms_agent_hello, features), 1,
			  vms_stream_deadline(&link->stream), &reply, error))
		return false;
	if (reply.size < sizeof(reply.hello))
		reply.hello.features = VMS_AGENT_FIRST_FEATURES;
	link->hello = reply.hello;
	if (check_server(link, error) && check_hello(link, error))
		link->shared = vms_agent_map(link, reply.fds[0], link->hello.shared_size, error);
	close_fds(&reply);
	return link->shared;
}

bool vms_agent_link_require(const struct vms_agent_link *link, enum vms_agent_feature feature,
			    GError **error)
{
	static const struct {
		enum vms_agent_feature feature;
		const char *text;
	} names[] = {
		{ VMS_AGENT_CAN_HOLD, "hold vCPUs for it" },
		{ VMS_AGENT_CAN_TRACE_CALLS, "trace calls for it" },
		{ VMS_AGENT_CAN_TRACK_TASKS, "tell tasks apart" },
		{ VMS_AGENT_CAN_LOOK, "wait until the guest was examined" },
		{ VMS_AGENT_CAN_PROBE, "run probes in the guest" },
		{ VMS_AGENT_CAN_COVER, "measure coverage" },
		{ VMS_AGENT_CAN_TALLY, "aggregate hits of probes" },
		{ VMS_AGENT_CAN_FOLLOW_CALLS, "follow calls until they return" },
		{ VMS_AGENT_CAN_KEEP_ARGUMENTS, "keep arguments of calls until they return" },
		{ VMS_AGENT_CAN_COUNT_INSTRUCTIONS, "count instructions" },
		{ VMS_AGENT_CAN_COPY_STACKS, "copy stacks at hits of probes" },
		{ VMS_AGENT_CAN_COPY_USER_STACKS, "copy the stacks of programs at hits" },
		{ VMS_AGENT_CAN_READ_WIDE, "read registers of more than 64 bits" },
	};
	if (link->hello.features & feature)
		return true;
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
		if (names[i].feature == feature)
			g_set_error(
				error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
				"%s: the agent in QEMU is older than this vmscope and cannot %s: "
				"restart QEMU with the agent of this vmscope",
				link->stream.peer, names[i].text);
	return false;
}

struct vms_agent_link *vms_agent_link_open(const char *path, pid_t pid, GError **error)
{
	g_autoptr(vms_agent_link) link = g_new0(struct vms_agent_link, 1);
	if (!vms_stream_connect_packets(&link->stream, "agent", path, error) ||
	    !find_process(link, pid, error) || !exchange_hello(link, error))
		return NULL;
	return g_steal_pointer(&link);
}

bool vms_agent_link_is_closed(const struct vms_agent_link *link)
{
	char byte;
	return recv(link->stream.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void vms_agent_link_close(struct vms_agent_link *link)
{
	if (!link)
		return;
	if (link->shared)
		munmap(link->shared, link->hello.shared_size);
	vms_host_identity_close(&link->process);
	vms_stream_close(&link->stream);
	g_free(link);
}
