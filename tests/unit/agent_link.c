/* SPDX-License-Identifier: MIT */
/* The client's end of the connection to an agent, against agents that lie. */
#include "machine/agent/link.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>

#define VCPUS 2
#define OLD_HELLO                                                                                  \
	offsetof(struct vms_agent_hello, features) /* bytes, before there were features            \
						    */

/* An agent that answers one hello, and one request, by what it is told. */
struct fake {
	char *directory, *path;
	int listener;
	pid_t expected; /* by the client; 0: anybody */
	bool handed_on; /* to a child, which answers */
	pid_t child;
	GThread *thread;
	union {
		struct vms_agent_hello hello;
		char hello_bytes[VMS_AGENT_MAX_MESSAGE];
	};
	size_t hello_size;    /* that is sent */
	size_t memory_size;   /* of the file */
	bool sealed, no_file; /* is the file protected, is there one? */
	union {
		struct vms_agent_message message;
		struct vms_agent_failure failure;
	} answer;
	size_t answer_size;
	unsigned n_answer_fds;
};

static const size_t shared_size =
	sizeof(struct vms_agent_shared) + VCPUS * sizeof(struct vms_agent_vcpu);

static int make_memory(const struct fake *fake)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	g_assert_cmpint(ftruncate(fd, (off_t)fake->memory_size), ==, 0);
	if (fake->sealed)
		g_assert_cmpint(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), ==, 0);
	return fd;
}

static void send_packet(int fd, const void *data, size_t size, const int *fds, unsigned n_fds)
{
	char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec part = { (void *)(uintptr_t)data, size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	if (n_fds) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
	}
	sendmsg(fd, &message, MSG_NOSIGNAL);
}

static gpointer serve(gpointer data)
{
	const struct fake *fake = data;
	char request[VMS_AGENT_MAX_MESSAGE];
	int memory = make_memory(fake), client = accept(fake->listener, NULL, NULL);
	bool is_expected = !fake->expected || fake->expected == getpid();
	g_assert_cmpint(recv(client, request, sizeof(request), 0), ==,
			is_expected ? sizeof(struct vms_agent_greeting) : 0);
	send_packet(client, fake->hello_bytes, fake->hello_size, &memory, !fake->no_file);
	if (fake->answer_size && recv(client, request, sizeof(request), 0) > 0) {
		const int fds[] = { memory, memory, memory };
		send_packet(client, &fake->answer, fake->answer_size, fds, fake->n_answer_fds);
	}
	while (recv(client, request, sizeof(request), 0) > 0)
		;
	close(client);
	close(memory);
	return NULL;
}

static void init(struct fake *fake)
{
	*fake = (struct fake) {
		.hello = { .message = { VMS_AGENT_MAGIC, VMS_AGENT_HELLO },
			   .version = VMS_AGENT_VERSION,
			   .pid = (uint32_t)getpid(),
			   .max_vcpus = VCPUS,
			   .n_regs = 3,
			   .shared_size = shared_size,
			   .arch = "x86_64",
			   .features = VMS_AGENT_FEATURES },
		.hello_size = sizeof(struct vms_agent_hello),
		.memory_size = shared_size,
		.sealed = true,
		.answer = { .message = { VMS_AGENT_MAGIC, VMS_AGENT_OK } },
	};
}

static struct vms_agent_link *start(struct fake *fake, GError **error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	fake->directory = g_dir_make_tmp("vmscope-XXXXXX", NULL);
	fake->path = g_build_filename(fake->directory, "agent", NULL);
	g_strlcpy(address.sun_path, fake->path, sizeof(address.sun_path));
	fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(fake->listener, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	g_assert_cmpint(listen(fake->listener, 1), ==, 0);
	if (!fake->handed_on) {
		fake->thread = g_thread_new("agent", serve, fake);
	} else if ((fake->child = fork()) == 0) {
		serve(fake);
		_exit(0);
	}
	return vms_agent_link_open(fake->path, fake->expected, error);
}

static void finish(struct fake *fake, struct vms_agent_link *link)
{
	vms_agent_link_close(link);
	if (fake->thread)
		g_thread_join(fake->thread);
	else
		g_assert_cmpint(waitpid(fake->child, NULL, 0), ==, fake->child);
	close(fake->listener);
	unlink(fake->path);
	rmdir(fake->directory);
	g_free(fake->path);
	g_free(fake->directory);
}

static void test_open(void)
{
	struct fake fake;
	g_autoptr(GError) error = NULL;
	init(&fake);
	struct vms_agent_link *link = start(&fake, &error);
	g_assert_no_error(error);
	g_assert_cmpint(link->process.pid, ==, getpid());
	g_assert_cmpuint(link->hello.max_vcpus, ==, VCPUS);
	link->shared->vcpu[VCPUS - 1].regs[VMS_AGENT_MAX_REGS - 1] = 1; /* is mapped */
	finish(&fake, link);
}

static void refuses(struct fake *fake, enum vms_error code)
{
	g_autoptr(GError) error = NULL;
	struct vms_agent_link *link = start(fake, &error);
	g_assert_null(link);
	g_assert_error(error, VMS_ERROR, (gint)code);
	g_assert_nonnull(strstr(error->message, fake->path));
	g_assert_null(strchr(error->message, '\n'));
	finish(fake, NULL);
}

static void test_lies(void)
{
	struct fake fake;
#define REFUSES(code, ...)                                                                         \
	do {                                                                                       \
		init(&fake);                                                                       \
		__VA_ARGS__;                                                                       \
		refuses(&fake, code);                                                              \
	} while (0)
	REFUSES(VMS_ERROR_UNSUPPORTED, fake.hello.version++);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.message.magic++);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.message.kind = VMS_AGENT_OK);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello_size = OLD_HELLO - 1);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello_size = 1);
	REFUSES(VMS_ERROR_CLOSED, fake.hello_size = 0, fake.no_file = true);
	REFUSES(VMS_ERROR_PROTOCOL, fake.no_file = true);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.max_vcpus = 0);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.max_vcpus = UINT32_MAX);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.max_vcpus++);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.n_regs = VMS_AGENT_MAX_REGS + 1);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.shared_size--);
	REFUSES(VMS_ERROR_PROTOCOL, fake.hello.shared_size = UINT64_MAX);
	REFUSES(VMS_ERROR_PROTOCOL, fake.memory_size--);
	REFUSES(VMS_ERROR_PROTOCOL, fake.sealed = false);
	REFUSES(VMS_ERROR_PROTOCOL, memset(fake.hello.arch, 'x', sizeof(fake.hello.arch)));
#undef REFUSES
}

/* What is missing in an agent that says this hello, by its error messages. */
static char *missing_in(struct fake *fake)
{
	static const enum vms_agent_feature all[] = { VMS_AGENT_CAN_HOLD, VMS_AGENT_CAN_TRACE_CALLS,
						      VMS_AGENT_CAN_TRACK_TASKS,
						      VMS_AGENT_CAN_LOOK };
	GString *missing = g_string_new(NULL);
	struct vms_agent_link *link = start(fake, NULL);
	g_assert_nonnull(link);
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		g_autoptr(GError) error = NULL;
		if (vms_agent_link_require(link, all[i], &error))
			continue;
		g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
		g_assert_nonnull(strstr(error->message, "restart QEMU with the agent of this"));
		const char *cannot = strstr(error->message, "older than this vmscope and cannot ");
		g_assert_nonnull(cannot);
		g_string_append_len(missing, cannot + 35, strcspn(cannot + 35, ":"));
		g_string_append_c(missing, ';');
	}
	finish(fake, link);
	return g_string_free(missing, FALSE);
}

/* Older and newer agents are used as far as they can. */
static void test_features(void)
{
	static const struct {
		size_t size; /* of the hello */
		uint64_t features;
		const char *missing;
	} cases[] = {
		{ OLD_HELLO, 0,
		  "trace calls for it;tell tasks apart;wait until the guest was examined;" },
		{ sizeof(struct vms_agent_hello), VMS_AGENT_FEATURES, "" },
		{ sizeof(struct vms_agent_hello), UINT64_MAX, "" },
		{ VMS_AGENT_MAX_MESSAGE, UINT64_MAX, "" },
		{ sizeof(struct vms_agent_hello), ~(uint64_t)VMS_AGENT_CAN_TRACK_TASKS,
		  "tell tasks apart;" },
		{ sizeof(struct vms_agent_hello), 0,
		  "hold vCPUs for it;trace calls for it;tell tasks apart;wait until the guest was "
		  "examined;" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct fake fake;
		init(&fake);
		memset(fake.hello_bytes + sizeof(fake.hello), 0xff,
		       sizeof(fake.hello_bytes) - sizeof(fake.hello));
		fake.hello.features = cases[i].features;
		fake.hello_size = cases[i].size;
		g_autofree char *missing = missing_in(&fake);
		g_assert_cmpstr(missing, ==, cases[i].missing);
	}
}

/* Who listens is the QEMU, whatever it says of itself, and only if it answers itself. */
static void test_process(void)
{
	struct fake fake;
	g_autoptr(GError) error = NULL;
	init(&fake);
	fake.expected = getpid();
	fake.hello.pid = 1;
	struct vms_agent_link *link = start(&fake, &error);
	g_assert_no_error(error);
	g_assert_cmpint(link->process.pid, ==, getpid());
	g_assert_true(vms_host_identity_is_alive(&link->process));
	finish(&fake, link);

	init(&fake);
	fake.expected = getppid();
	refuses(&fake, VMS_ERROR_PERMISSION);
	init(&fake);
	fake.handed_on = true;
	refuses(&fake, VMS_ERROR_PERMISSION);
}

/* What comes of a request to an agent that answers so. */
static void request(struct fake *fake, unsigned n_fds, int *fds, GError **error)
{
	struct vms_agent_message message = { .kind = VMS_AGENT_CALLS_STOP };
	struct vms_agent_link *link = start(fake, NULL);
	g_assert_nonnull(link);
	bool done = vms_agent_request(link, &message, sizeof(message), -1, fds, n_fds, error);
	g_assert_true(done == (*error == NULL));
	finish(fake, link);
}

static void test_requests(void)
{
	struct fake fake;
	int fds[2] = { -1, -1 };
	g_autoptr(GError) error = NULL;
	init(&fake);
	fake.answer_size = sizeof(struct vms_agent_message);
	request(&fake, 0, NULL, &error);
	g_assert_no_error(error);
	fake.n_answer_fds = 2;
	request(&fake, 2, fds, &error);
	g_assert_no_error(error);
	for (size_t i = 0; i < G_N_ELEMENTS(fds); i++) {
		g_assert_cmpint(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, !=, 0);
		close(fds[i]);
	}
	for (unsigned n = 0; n < 4; n++) { /* too few, too many */
		fake.n_answer_fds = n;
		request(&fake, 1, fds, &error);
		if (n == 1) {
			g_assert_no_error(error);
			close(fds[0]);
		} else {
			g_assert_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL);
			g_clear_error(&error);
		}
	}
}

static void test_failures(void)
{
	static const struct {
		uint32_t code;
		enum vms_error expected;
	} cases[] = {
		{ VMS_ERROR_BUSY, VMS_ERROR_BUSY },
		{ UINT32_MAX, VMS_ERROR_PROTOCOL },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct fake fake;
		g_autoptr(GError) error = NULL;
		init(&fake);
		fake.answer.failure = (struct vms_agent_failure) {
			.message = { VMS_AGENT_MAGIC, VMS_AGENT_ERROR },
			.code = cases[i].code,
		};
		memset(fake.answer.failure.text, '\033', sizeof(fake.answer.failure.text));
		fake.answer_size = sizeof(fake.answer.failure);
		request(&fake, 0, NULL, &error);
		g_assert_error(error, VMS_ERROR, (gint)cases[i].expected);
		g_assert_null(strchr(error->message, '\033'));
		g_assert_cmpuint(strlen(error->message), <, 1024);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/agent-link/open", test_open);
	g_test_add_func("/agent-link/lies", test_lies);
	g_test_add_func("/agent-link/features", test_features);
	g_test_add_func("/agent-link/process", test_process);
	g_test_add_func("/agent-link/requests", test_requests);
	g_test_add_func("/agent-link/failures", test_failures);
	return g_test_run();
}
