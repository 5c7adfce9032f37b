/* SPDX-License-Identifier: MIT */
#include "agent/server.h"

#include "agent/hold/hold.h"
#include "agent/services.h"
#include "base/clock.h"
#include "machine/agent/packet_fds.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/*
 * How often clients are checked. A client that was stopped while it holds a vCPU must not stop the
 * guest for long.
 */
#define WATCH_MS     100
#define EXIT_SECONDS 2
/* How many file descriptors of a message are received at most. All but the first are closed. */
#define FDS_MAX 8

struct client {
	int fd;		   /* -1: none */
	int pidfd;	   /* -1: unknown */
	pid_t pid;	   /* 0: unknown */
	uint64_t features; /* enum vms_agent_feature */
	bool greeted;
};

static struct {
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	struct stat file;
	int fd; /* the listening socket */
	/* No client is accepted before this time: accept had no descriptor or memory. */
	uint64_t full_until_ns;
	int end; /* an eventfd that ends the thread */
	unsigned api;
	pthread_t thread;
	/* The last one exceeds the limit: its requests are refused. */
	struct client client[VMS_AGENT_MAX_CLIENTS + 1];
} server;

/* ---- replies ------------------------------------------------------------ */

/* Does not wait. False if the client does not read its replies, or is gone. */
static bool send_reply(int fd, struct reply *reply)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(reply->fds))];
	} control = { 0 };
	struct iovec buffer = { &reply->message, reply->size };
	struct msghdr message = { .msg_iov = &buffer, .msg_iovlen = 1 };
	if (reply->n_fds) {
		size_t size = reply->n_fds * sizeof(reply->fds[0]);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(size);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.header), reply->fds, size);
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)reply->size;
}

/* ---- clients ------------------------------------------------------------ */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void drop_client(unsigned index)
{
	struct client *client = &server.client[index];
	if (index < VMS_AGENT_MAX_CLIENTS)
		services_client_gone(index);
	close_fd(&client->fd);
	close_fd(&client->pidfd);
}

static void accept_client(void)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	unsigned index = 0;
	int fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		/* The connection is still pending, so poll would report it again at once. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			server.full_until_ns = vms_clock_now_ns() + WATCH_MS * UINT64_C(1000000);
		return;
	}
	while (index < VMS_AGENT_MAX_CLIENTS && server.client[index].fd >= 0)
		index++;
	close_fd(&server.client[index].fd);
	close_fd(&server.client[index].pidfd);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	server.client[index] = (struct client) {
		.fd = fd,
		.pid = peer.pid,
		.pidfd = peer.pid > 0 ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1,
	};
}

/* True if a signal or a debugger has stopped the process. */
static bool is_stopped(pid_t pid)
{
	char path[32], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[MAX(size, 0)] = 0;
	const char *name_end = strrchr(text, ')');
	/* Z and X: it was killed, but one of its threads still waits for a disk. */
	return name_end && size > name_end + 2 - text && memchr("TtZX", name_end[2], 4);
}

static void watch_clients(void)
{
	static uint64_t watched_ns;
	uint64_t now_ns = vms_clock_now_ns();
	if (now_ns - watched_ns < WATCH_MS * UINT64_C(1000000))
		return;
	watched_ns = now_ns;
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++) {
		const struct client *client = &server.client[i];
		if (client->fd >= 0 && client->pid > 0 && hold_any(i) && is_stopped(client->pid))
			hold_break(i);
	}
}

/* ---- requests ----------------------------------------------------------- */

/*
 * Answers a client's hello. *memory is the descriptor of the shared memory, which the caller sends
 * and closes. A client whose hello has no features gets a hello without features.
 */
static void answer_hello(const struct request *request, struct reply *reply, int *memory)
{
	struct client *client = &server.client[request->client];
	const struct vms_agent_greeting *greeting = (const void *)request->message;
	bool knows_features = request->size >= sizeof(*greeting);
	struct vms_agent_hello hello = {
		.message = { VMS_AGENT_MAGIC, VMS_AGENT_HELLO },
		.version = VMS_AGENT_VERSION,
		.api = server.api,
		.pid = (uint32_t)getpid(),
		.max_vcpus = vcpus_max(),
		.n_regs = vcpu_arch()->n_regs,
		.one_thread = vcpus_one_thread(),
		.features = VMS_AGENT_FEATURES,
	};
	if (client->greeted) {
		reply_error(reply, VMS_ERROR_INVALID_STATE, "the client has sent a second hello");
		return;
	}
	*memory = hold_open(request->client, &hello.shared_size);
	if (*memory < 0) {
		reply_error(reply, VMS_ERROR_IO,
			    "QEMU cannot allocate memory to share with vmscope: %s",
			    g_strerror(errno));
		return;
	}
	client->greeted = true;
	client->features = knows_features ? greeting->features : 0;
	g_strlcpy(hello.arch, vcpu_arch()->name, sizeof(hello.arch));
	reply->hello = hello;
	reply->size = knows_features ? sizeof(hello) : offsetof(struct vms_agent_hello, features);
	reply->fds[0] = *memory;
	reply->n_fds = 1;
}

/* Answers a request. *memory is as in answer_hello. */
static void answer_request(const struct request *request, struct reply *reply, int *memory)
{
	const struct vms_agent_message *message = request->message;
	if (request->size < sizeof(*message) || message->magic != VMS_AGENT_MAGIC) {
		reply_error(reply, VMS_ERROR_PROTOCOL, "the message is not from vmscope");
		return;
	}
	if (request->client == VMS_AGENT_MAX_CLIENTS) {
		reply_error(reply, VMS_ERROR_BUSY,
			    "the agent already has %u clients: end one of them", request->client);
		return;
	}
	const struct service *service = services_find(message->kind);
	if (message->kind == VMS_AGENT_HELLO)
		answer_hello(request, reply, memory);
	else if (service)
		service->answer(request, reply);
	else
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "the agent does not support requests of kind %u: vmscope and the agent "
			    "in QEMU are of different versions",
			    message->kind);
}

/* Receives and answers one request. False if the client must be dropped. */
static bool serve_client(unsigned index)
{
	union {
		struct vms_agent_message message;
		uint64_t align;
		char bytes[VMS_AGENT_MAX_MESSAGE];
	} bytes;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec buffer = { &bytes, sizeof(bytes) };
	struct msghdr message = { .msg_iov = &buffer,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct request request = {
		.client = index,
		.pid = server.client[index].pid,
		.features = server.client[index].features,
		.message = &bytes.message,
		.fd = -1,
	};
	struct reply reply = { 0 };
	int memory = -1;
	ssize_t size = recvmsg(server.client[index].fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (size < 0)
		return errno == EAGAIN || errno == EINTR;
	request.size = (size_t)size;
	vms_agent_take_fds(&message, &request.fd, 1);
	bool sound = size > 0 && !(message.msg_flags & MSG_TRUNC);
	if (sound)
		answer_request(&request, &reply, &memory);
	if (reply.size)
		sound &= send_reply(server.client[index].fd, &reply);
	sound &= index < VMS_AGENT_MAX_CLIENTS;
	close_fd(&request.fd);
	close_fd(&memory);
	return sound;
}

/* ---- the thread --------------------------------------------------------- */

#define N_POLLS (2 + 2 * G_N_ELEMENTS(server.client))

/* False if there is no client, and none waits to be accepted. */
static bool fill_polls(struct pollfd polls[N_POLLS])
{
	bool full = vms_clock_now_ns() < server.full_until_ns;
	bool clients = full;
	polls[0] = (struct pollfd) { .fd = server.end, .events = POLLIN };
	polls[1] = (struct pollfd) { .fd = full ? -1 : server.fd, .events = POLLIN };
	for (unsigned i = 0; i < G_N_ELEMENTS(server.client); i++) {
		const struct client *client = &server.client[i];
		clients |= client->fd >= 0;
		polls[2 + 2 * i] = (struct pollfd) { .fd = client->fd, .events = POLLIN };
		polls[3 + 2 * i] = (struct pollfd) { .fd = client->pidfd, .events = POLLIN };
	}
	return clients;
}

static void *run_server(__attribute__((unused)) void *data)
{
	for (;;) {
		struct pollfd polls[N_POLLS];
		bool clients = fill_polls(polls);
		if (poll(polls, N_POLLS, clients ? WATCH_MS : -1) < 0)
			continue;
		if (polls[0].revents)
			return NULL;
		for (unsigned i = 0; i < G_N_ELEMENTS(server.client); i++) {
			if (polls[3 + 2 * i].revents ||
			    (polls[2 + 2 * i].revents && !serve_client(i)))
				drop_client(i);
		}
		if (polls[1].revents)
			accept_client();
		watch_clients();
	}
}

static bool start_thread(void)
{
	sigset_t every, before;
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	int failure = pthread_create(&server.thread, NULL, run_server, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failure)
		errno = failure;
	else
		pthread_setname_np(server.thread, "vmscope-agent");
	return !failure;
}

/* ---- the socket --------------------------------------------------------- */

/* True if the file is a socket on which no program listens. */
static bool is_stale(const struct sockaddr_un *address)
{
	struct stat file;
	if (lstat(address->sun_path, &file) < 0 || !S_ISSOCK(file.st_mode))
		return false;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused = fd >= 0 &&
		       connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		       errno == ECONNREFUSED;
	close_fd(&fd);
	return refused;
}

static bool bind_socket(const struct sockaddr_un *address)
{
	const struct sockaddr *generic = (const struct sockaddr *)address;
	/* The file gets the mode of the socket, so no other user can connect at any time. */
	if (fchmod(server.fd, S_IRUSR | S_IWUSR) < 0)
		return false;
	if (bind(server.fd, generic, sizeof(*address)) == 0)
		return true;
	if (errno != EADDRINUSE || !is_stale(address)) {
		errno = errno == ECONNREFUSED ? EADDRINUSE : errno;
		return false;
	}
	return unlink(address->sun_path) == 0 && bind(server.fd, generic, sizeof(*address)) == 0;
}

static bool open_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return false;
	}
	strcpy(address.sun_path, path);
	strcpy(server.path, path);
	server.end = eventfd(0, EFD_CLOEXEC);
	server.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return server.end >= 0 && server.fd >= 0 && bind_socket(&address) &&
	       stat(path, &server.file) == 0 && listen(server.fd, SOMAXCONN) == 0;
}

bool server_start(const char *path, unsigned api)
{
	server.api = api;
	for (unsigned i = 0; i < G_N_ELEMENTS(server.client); i++)
		server.client[i] = (struct client) { .fd = -1, .pidfd = -1 };
	if (open_socket(path) && start_thread())
		return true;
	fprintf(stderr, "vmscope agent: cannot listen on the socket '%s': %s\n", path,
		g_strerror(errno));
	return false;
}

void server_stop(void)
{
	struct timespec deadline;
	struct stat file;
	uint64_t one = 1;
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += EXIT_SECONDS;
	if (write(server.end, &one, sizeof(one)) == sizeof(one))
		pthread_timedjoin_np(server.thread, NULL, &deadline);
	/* Another program may have put its own socket there. */
	if (lstat(server.path, &file) == 0 && file.st_dev == server.file.st_dev &&
	    file.st_ino == server.file.st_ino)
		unlink(server.path);
}
