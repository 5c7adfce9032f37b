/* SPDX-License-Identifier: MIT */
/*
 * What clients send to the agent, over its real socket, and write into the memory that it shares
 * with them. Input: options (1 byte), then steps: what (1), which client (1), and what the step
 * takes. After each input all clients have gone, and no descriptor is left.
 *
 * Covers: agent/server.c agent/calls/calls.c agent/coverage/coverage.c agent/hold/hold.c
 * agent/probes/plan.c agent/probes/probes.c agent/probes/set.c agent/probes/vcpu_tallies.c
 * agent/probes/visit.c agent/tasks/tasks.c agent/period/period.c agent/ring.c.
 */
#include "agent/calls/calls.h"
#include "agent/hold/hold.h"
#include "agent/probes/visit.h"
#include "agent/server.h"
#include "agent/services.h"
#include "base/bytes.h"
#include "fake_qemu.h"
#include "machine/agent/packet_fds.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS	   6 /* one is refused, one more comes in its place */
#define VCPUS	   2
#define FDS	   10 /* at most, with a message */
#define STEPS	   64
#define FILE_LIMIT 4096
#define TALLY_SIZE 4096	      /* bytes of them that are written to */
#define PROBE	   1886547810 /* a kind of message that there is none of */
#define PATIENCE_S 10
#define WATCH_US   150000 /* in which the server looks whether clients are stopped */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NEEDS_CODE = 1, SLOW = 0x5a }; /* SLOW: alone, so that few inputs are */

enum step {
	CONNECT,
	GO,
	SEND,	    /* size (2), bytes */
	SEND_FILE,  /* what (1), how many (1), sizes of message and of file (2 each), bytes */
	WRITE_VCPU, /* vCPU (1), word (1), value (8) */
	WRITE_RING, /* offset (2; from 32768 on: in tallies), value (8) */
	VCPU,	    /* vCPU (1), what it does (1) */
	RUN,
	QUIT, /* QEMU ends */
	N_STEPS
};

struct client {
	int fd; /* -1: none */
	struct vms_agent_shared *shared;
	size_t shared_size;
	void *rings;
	_Atomic uint64_t *tallies; /* the begin of them */
};

static struct {
	char *directory, *path;
	struct client client[CLIENTS];
	struct vms_bytes input;
	size_t at;
} world;

/* ---- the input ------------------------------------------------------------------ */

/* The next bytes; what is not there is 0. */
static uint64_t take(size_t size)
{
	uint64_t value = 0;
	for (size_t i = 0; i < size; i++, world.at++)
		if (world.at < world.input.size)
			value |= (uint64_t)world.input.data[world.at] << 8 * i;
	return value;
}

static struct vms_bytes take_bytes(size_t size)
{
	size_t at = MIN(world.at, world.input.size);
	size = MIN(size, world.input.size - at);
	world.at = at + size;
	return (struct vms_bytes) { world.input.data + at, size };
}

/* ---- replies -------------------------------------------------------------------- */

static void *map(int fd, size_t *size)
{
	off_t end = lseek(fd, 0, SEEK_END);
	if (end <= 0)
		return NULL;
	*size = (size_t)end;
	void *memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	g_assert_true(memory != MAP_FAILED);
	return memory;
}

/* The memory that came with a reply. */
static void take_memory(struct client *client, const struct vms_agent_message *reply, int fd)
{
	size_t size;
	void *memory = map(fd, &size);
	if (!memory)
		return;
	if (reply->kind == VMS_AGENT_HELLO) {
		g_assert_null(client->shared);
		client->shared = memory;
		client->shared_size = size;
		return;
	}
	if (client->rings)
		munmap(client->rings, 4096);
	client->rings = memory;
	munmap((char *)memory + 4096, size - 4096);
}

static void take_tallies(struct client *client, int fd)
{
	size_t size;
	char *memory = map(fd, &size);
	g_assert_cmpuint(size, >=, TALLY_SIZE);
	if (client->tallies)
		munmap(client->tallies, TALLY_SIZE);
	munmap(memory + TALLY_SIZE, size - TALLY_SIZE);
	client->tallies = (void *)memory;
}

/* False: the server has closed the connection. */
static bool receive(struct client *client, bool *is_probe)
{
	union {
		struct vms_agent_message message;
		struct vms_agent_failure failure;
		char bytes[VMS_AGENT_MAX_MESSAGE];
	} reply;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
	} control;
	struct iovec part = { &reply, sizeof(reply) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int fds[FDS];
	ssize_t size = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
	g_assert_true(size >= 0 || errno == ECONNRESET);
	if (size <= 0)
		return false;
	unsigned n = vms_agent_take_fds(&message, fds, FDS);
	g_assert_cmpint(size, >=, sizeof(reply.message));
	g_assert_cmphex(reply.message.magic, ==, VMS_AGENT_MAGIC);
	if (reply.message.kind == VMS_AGENT_ERROR) {
		g_assert_cmpint(size, ==, sizeof(reply.failure));
		*is_probe = strstr(reply.failure.text, G_STRINGIFY(PROBE)) != NULL;
	}
	if (n > 0)
		take_memory(client, &reply.message, fds[0]);
	if (n > 2)
		take_tallies(client, fds[2]);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	return true;
}

/* ---- clients -------------------------------------------------------------------- */

static void forget(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	if (client->shared)
		munmap(client->shared, client->shared_size);
	if (client->rings)
		munmap(client->rings, 4096);
	if (client->tallies)
		munmap(client->tallies, TALLY_SIZE);
	*client = (struct client) { .fd = -1 };
}

/* Waits until the server has dealt with all that was sent. */
static void sync_with(struct client *client)
{
	const struct vms_agent_message probe = { VMS_AGENT_MAGIC, PROBE };
	bool is_probe = false;
	if (client->fd < 0)
		return;
	if (send(client->fd, &probe, sizeof(probe), MSG_NOSIGNAL) != sizeof(probe)) {
		forget(client);
		return;
	}
	while (!is_probe) {
		if (!receive(client, &is_probe)) {
			forget(client);
			return;
		}
	}
}

/* Waits until the server knows that the client has gone. */
static void leave(struct client *client)
{
	bool is_probe;
	if (client->fd < 0)
		return;
	shutdown(client->fd, SHUT_WR);
	while (receive(client, &is_probe))
		;
	forget(client);
}

static void connect_client(struct client *client)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { PATIENCE_S, 0 };
	if (client->fd >= 0)
		return;
	g_strlcpy(address.sun_path, world.path, sizeof(address.sun_path));
	client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		g_error("cannot connect to the agent");
	sync_with(client);
}

static int make_file(unsigned what, struct vms_bytes content)
{
	if (what % 4 == 1)
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	if (what % 4 == 2)
		return eventfd(1, EFD_CLOEXEC);
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (write(fd, content.data, content.size) != (ssize_t)content.size)
		g_error("no memory file");
	return fd;
}

static void send_with(struct client *client, struct vms_bytes bytes, int fd, unsigned n_fds)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
	} control = { 0 };
	struct iovec part = { (void *)(uintptr_t)bytes.data, bytes.size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int fds[FDS];
	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = fd;
	if (n_fds) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(fd));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(fd));
		memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(fd));
	}
	sendmsg(client->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	sync_with(client);
}

static void send_file(struct client *client)
{
	unsigned what = (unsigned)take(1), n_fds = (unsigned)take(1) % (FDS + 1);
	size_t size = take(2), file_size = take(2) % FILE_LIMIT;
	struct vms_bytes bytes = take_bytes(size);
	int fd = make_file(what, take_bytes(file_size));
	if (client->fd >= 0)
		send_with(client, bytes, fd, n_fds);
	close(fd);
}

/* ---- what is shared --------------------------------------------------------------- */

static void write_vcpu(struct client *client)
{
	unsigned vcpu = (unsigned)take(1) % VCPUS, word = (unsigned)take(1);
	uint64_t value = take(8);
	if (!client->shared)
		return;
	struct vms_agent_vcpu *slot = &client->shared->vcpu[vcpu];
	switch (word % 4) {
	case 0: atomic_store(&slot->wanted, (uint32_t)value); break;
	case 1: atomic_store(&slot->held, (uint32_t)value); break;
	case 2: slot->n_prefetch = (uint32_t)value; break;
	default: slot->prefetch_hva[word / 4 % VMS_AGENT_MAX_PREFETCH] = value;
	}
}

static void write_ring(struct client *client)
{
	const size_t offset = take(2);
	const uint64_t value = take(8);
	if (offset >= 32768 && client->tallies)
		client->tallies[offset % (TALLY_SIZE / 8)] = value;
	else if (client->rings)
		((_Atomic uint64_t *)client->rings)[offset % (4096 / 8)] = value;
}

/* Nobody but us could end a hold for which a vCPU would wait. */
static void end_holds(unsigned vcpu)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct vms_agent_shared *shared = world.client[i].shared;
		if (shared)
			atomic_fetch_and(&shared->vcpu[vcpu].wanted, ~VMS_AGENT_PIN);
	}
}

/* The vCPU executes an instruction, which may have places. */
static void execute(unsigned index, unsigned what)
{
	const struct pending insn = { .va = what / 7 % 4, .next = what / 7 % 4 + 1 };
	visit_before(index, &insn);
	if (what & 128)
		visit_after(index);
	else
		visit_block(index, insn.va + (what / 28 & 1));
}

static void act(unsigned index, unsigned what)
{
	struct vcpu *vcpu = vcpu_get(index);
	switch (what % 7) {
	case 0: services_vcpu_halts(vcpu, 0); break;
	case 1: services_vcpu_resumes(vcpu); break;
	case 2: services_vcpu_halts(vcpu, 0x1000); break;
	case 3:
		end_holds(index);
		services_vcpu_kicked(vcpu);
		break;
	case 4: services_vcpu_ends(vcpu); break;
	case 5: services_vcpu_begins(vcpu); break;
	default: execute(index, what);
	}
}

/* ---- one input ---------------------------------------------------------------------- */

static void take_step(void)
{
	enum step step = take(1) % N_STEPS;
	struct client *client = &world.client[take(1) % CLIENTS];
	switch (step) {
	case CONNECT: connect_client(client); break;
	case GO: forget(client); break;
	case SEND: {
		struct vms_bytes bytes = take_bytes(take(2));
		if (client->fd >= 0)
			send_with(client, bytes, -1, 0);
		break;
	}
	case SEND_FILE: send_file(client); break;
	case WRITE_VCPU: write_vcpu(client); break;
	case WRITE_RING: write_ring(client); break;
	case VCPU: {
		unsigned vcpu = (unsigned)take(1) % VCPUS;
		act(vcpu, (unsigned)take(1));
		break;
	}
	case RUN:
		if (services_need_code())
			fake_qemu_run();
		break;
	case QUIT: services_quit(); break;
	case N_STEPS:
	default: g_assert_not_reached();
	}
}

/* The lowest descriptor that is free: the same again when none is left over. */
static int free_fd(void)
{
	int fd = dup(STDERR_FILENO);
	close(fd);
	return fd;
}

static void finish(int fd)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		leave(&world.client[i]);
	/* By the time that it knows of one more it knows of those that have just gone, too. */
	connect_client(&world.client[0]);
	leave(&world.client[0]);
	fake_qemu_run();
	for (unsigned i = 0; i < 1000 && free_fd() != fd; i++)
		g_usleep(100); /* the server closes some after the connection */
	g_assert_cmpint(free_fd(), ==, fd);
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++)
		g_assert_false(hold_any(i));
}

/* As a QEMU that was killed leaves it. */
static void leave_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	g_strlcpy(address.sun_path, world.path, sizeof(address.sun_path));
	g_assert_cmpint(bind(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	close(fd);
}

static void stop(void)
{
	server_stop();
	g_rmdir(world.directory);
}

/* A vCPU has a thread of its own: QEMU would mix up those that share one. */
static gpointer init_vcpu(gpointer data)
{
	return vcpu_init(GPOINTER_TO_UINT(data));
}

static void start(void)
{
	static const char *const regs[] = { "pc", "sp" };
	static const struct arch arch = {
		.name = "x86_64",
		.regs = regs,
		.n_regs = G_N_ELEMENTS(regs),
		.levels = { .kernel = 3, .number = { 3, 2, 1, 0 } },
	};
	if (world.path)
		return;
	world.directory = g_dir_make_tmp("vmscope-fuzz-XXXXXX", NULL);
	world.path = g_build_filename(world.directory, "agent", NULL);
	for (unsigned i = 0; i < CLIENTS; i++)
		world.client[i].fd = -1;
	g_assert_true(vcpus_new(&arch, VCPUS));
	g_assert_true(services_init());
	init_vcpu(GUINT_TO_POINTER(0));
	g_thread_join(g_thread_new("vCPU 1", init_vcpu, GUINT_TO_POINTER(1)));
	hold_service.vcpu_begins(vcpu_get(0));
	leave_socket();
	g_assert_true(server_start(world.path, 4));
	atexit(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	start();
	int fd = free_fd();
	world.input = (struct vms_bytes) { data, size };
	world.at = 0;
	unsigned options = (unsigned)take(1);
	fake_qemu_set_needs_code(options & NEEDS_CODE);
	for (unsigned i = 0; i < STEPS && world.at < size; i++)
		take_step();
	if (options == SLOW)
		g_usleep(WATCH_US);
	finish(fd);
	return 0;
}
