/* SPDX-License-Identifier: MIT */
/*
 * An agent that lies. Input: its packets, each a head (how many files come with it, what they are,
 * its size) and its bytes; the first answers the hello, the others requests.
 *
 * Covers: src/machine/agent/link.c.
 */
#include "machine/agent/link.h"
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>
#include <vmscope/error.h>

#define HEAD	  6
#define FDS	  4 /* at most, with a packet */
#define REQUESTS  4
#define TOO_LARGE (VMS_AGENT_MAX_MESSAGE + 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a packet's files are. */
enum { SEALED = 1, NO_MEMORY = 2, READ_ONLY = 4 };

struct packet {
	uint8_t n_fds, what;
	uint16_t size;	      /* of the bytes that follow */
	uint16_t memory_size; /* of the files, in units of 64 bytes */
};

static struct {
	char *directory, *path;
	int listener;
	const uint8_t *at, *end;
} agent;

static int make_file(const struct packet *packet)
{
	if (packet->what & NO_MEMORY)
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int seals = (packet->what & SEALED ? F_SEAL_SHRINK | F_SEAL_GROW : 0) |
		    (packet->what & READ_ONLY ? F_SEAL_WRITE : 0);
	if (ftruncate(fd, packet->memory_size * (off_t)64) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
		g_error("no memory file");
	return fd;
}

static bool take_packet(struct packet *packet, const uint8_t **bytes)
{
	if (agent.end - agent.at < HEAD)
		return false;
	memcpy(&packet->size, agent.at + 2, 2);
	memcpy(&packet->memory_size, agent.at + 4, 2);
	packet->n_fds = agent.at[0] % (FDS + 1);
	packet->what = agent.at[1];
	*bytes = agent.at + HEAD;
	packet->size = (uint16_t)MIN(MIN(packet->size, TOO_LARGE), agent.end - *bytes);
	agent.at = *bytes + packet->size;
	return true;
}

static void send_packet(int client, const struct packet *packet, const uint8_t *bytes)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
	} control = { 0 };
	struct iovec part = { (void *)(uintptr_t)bytes, packet->size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int fds[FDS], fd = packet->n_fds ? make_file(packet) : -1;
	for (unsigned i = 0; i < packet->n_fds; i++)
		fds[i] = fd;
	if (packet->n_fds) {
		size_t size = packet->n_fds * sizeof(fd);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(size);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.header), fds, size);
	}
	sendmsg(client, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
}

/* Says all that it has to say, whatever it is asked, and then nothing more. */
static gpointer serve(gpointer data)
{
	int client = accept(agent.listener, NULL, NULL);
	const uint8_t *bytes;
	struct packet packet;
	char request[64];
	while (take_packet(&packet, &bytes))
		send_packet(client, &packet, bytes);
	shutdown(client, SHUT_WR);
	while (recv(client, request, sizeof(request), 0) > 0)
		;
	close(client);
	return data;
}

static void check_error(const GError *error)
{
	g_assert_nonnull(error);
	g_assert_null(strpbrk(error->message, "\n\033"));
}

static void request(struct vms_agent_link *link, unsigned n_fds)
{
	struct vms_agent_message message = { .kind = VMS_AGENT_CALLS_STOP };
	g_autoptr(GError) error = NULL;
	int fds[2];
	if (!vms_agent_request(link, &message, sizeof(message), -1, fds, n_fds, &error)) {
		check_error(error);
		return;
	}
	for (unsigned i = 0; i < n_fds; i++) {
		void *memory = vms_agent_map(link, fds[i], 4096, NULL);
		if (memory)
			munmap(memory, 4096);
		close(fds[i]);
	}
}

/* All that is shared must be there. */
static void check_link(const struct vms_agent_link *link)
{
	struct vms_agent_shared *shared = link->shared;
	g_assert_nonnull(memchr(link->hello.arch, '\0', sizeof(link->hello.arch)));
	for (uint32_t i = 0; i < link->hello.max_vcpus; i++)
		shared->vcpu[i].n_prefetch++;
}

static void stop(void)
{
	g_unlink(agent.path);
	g_rmdir(agent.directory);
}

static void start(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (agent.directory)
		return;
	agent.directory = g_dir_make_tmp("vmscope-fuzz-XXXXXX", NULL);
	agent.path = g_build_filename(agent.directory, "agent", NULL);
	g_strlcpy(address.sun_path, agent.path, sizeof(address.sun_path));
	agent.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(agent.listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(agent.listener, 1) < 0)
		g_error("cannot listen on %s", agent.path);
	atexit(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autoptr(GError) error = NULL;
	start();
	agent.at = data;
	agent.end = data + size;
	GThread *thread = g_thread_new("agent", serve, NULL);
	struct vms_agent_link *link = vms_agent_link_open(agent.path, 0, &error);
	if (link)
		check_link(link);
	else
		check_error(error);
	for (unsigned i = 0; link && i < REQUESTS; i++)
		request(link, i % 3);
	vms_agent_link_close(link);
	g_thread_join(thread);
	return 0;
}
