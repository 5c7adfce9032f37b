/* SPDX-License-Identifier: MIT */
/*
 * Jails of this very program: with VMS_JAIL_ARGUMENT it serves the requests of its own tests. One
 * of the services is a stand-in for what somebody would do who has taken a parser over.
 */
#include "base/jail_process.h"
#include "base/sanitized.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <vmscope/log.h>

enum kind {
	ECHO = 1,
	ATTACK,
	CRASH,
	HANG,
	READ,
	SPEND,
	KEEP,
	COUNT,
	FDS,
	TELL,
	ALLOCATE,
	OPEN,
	WASTE,
	STAND_STILL,
};

/* ---- services ---------------------------------------------------------- */

static void *volatile nowhere;

/* Each returns a negative number if it was refused. */
static long open_shadow(void)
{
	return open("/etc/shadow", O_RDONLY);
}

static long open_any(void)
{
	return open("/proc/self/maps", O_RDONLY);
}

static long write_file(void)
{
	return open("/tmp/vmscope-jail-test", O_CREAT | O_WRONLY, 0600);
}

static long connect_out(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static long connect_local(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long start_process(void)
{
	const long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(0);
	return pid;
}

static long start_by_vfork(void)
{
	return syscall(SYS_clone3, NULL, 0);
}

static long execute(void)
{
	return execl("/bin/true", "true", NULL);
}

static long trace_parent(void)
{
	return ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
}

static long read_parent(void)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)0x400000, 1 };
	return syscall(SYS_process_vm_readv, getppid(), &here, 1UL, &there, 1UL, 0UL);
}

static long kill_parent(void)
{
	return kill(getppid(), 0);
}

static long make_code(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return page == MAP_FAILED ? 0 : mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static long map_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			       MAP_FAILED
		       ? -1
		       : 0;
}

static long type_on_terminal(void)
{
	return syscall(SYS_ioctl, 0, 0x5412 /* TIOCSTI */, "x");
}

static long become_root(void)
{
	return setuid(0);
}

static long change_root(void)
{
	return chroot("/");
}

static long load_bpf(void)
{
	return syscall(SYS_bpf, 0, NULL, 0);
}

static long use_ring(void)
{
	return syscall(SYS_io_uring_setup, 1, NULL);
}

static long raise_limit(void)
{
	const uint64_t limit[2] = { 1 << 20, 1 << 20 };
	return syscall(SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, limit, NULL);
}

#define ATTACK(name)                                                                               \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct {
	const char *name;
	long (*attack)(void);
} attacks[] = {
	ATTACK(open_shadow),   ATTACK(open_any),       ATTACK(write_file),
	ATTACK(connect_out),   ATTACK(connect_local),  ATTACK(execute),
	ATTACK(start_process), ATTACK(start_by_vfork), ATTACK(trace_parent),
	ATTACK(read_parent),   ATTACK(kill_parent),    ATTACK(make_code),
	ATTACK(map_code),      ATTACK(become_root),    ATTACK(type_on_terminal),
	ATTACK(change_root),   ATTACK(load_bpf),       ATTACK(use_ring),
	ATTACK(raise_limit),
};

/* Answers the names of the attacks that succeeded. */
static void try_attacks(struct vms_jail_work *work)
{
	for (size_t i = 0; i < G_N_ELEMENTS(attacks); i++) {
		if (attacks[i].attack() < 0)
			continue;
		g_byte_array_append(work->answer, (const guint8 *)attacks[i].name,
				    (guint)strlen(attacks[i].name));
		g_byte_array_append(work->answer, (const guint8 *)" ", 1);
	}
}

static gpointer do_nothing(gpointer data)
{
	return data;
}

static bool serve_simple(void *state, struct vms_jail_work *work, GError **error)
{
	unsigned *count = state;
	uint8_t bytes[1000];
	switch ((enum kind)work->kind) {
	case ECHO:
		g_thread_join(g_thread_new("thread", do_nothing, NULL));
		g_byte_array_append(work->answer, work->bytes.data, (guint)work->bytes.size);
		return true;
	case ATTACK: try_attacks(work); return true;
	case CRASH: *(volatile int *)nowhere = 1; return true;
	case HANG:
		for (;;)
			g_usleep(1000000);
	case STAND_STILL: g_usleep(G_MAXINT); return true;
	case READ:
		if (!vms_file_source_read(&work->sources[1], 5, bytes, sizeof(bytes))) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE, "it is\nmissing");
			return false;
		}
		g_byte_array_append(work->answer, bytes, sizeof(bytes));
		return true;
	case SPEND: {
		g_autoptr(vms_budget) part = vms_budget_new_part(work->budget, "a disk");
		while (vms_budget_step(part, 1))
			;
		return true;
	}
	case KEEP: return vms_budget_take(work->budget, VMS_BUDGET_BYTES, 1000);
	case COUNT:
		++*count;
		g_byte_array_append(work->answer, (const guint8 *)count, sizeof(*count));
		return true;
	case FDS: {
		const ssize_t n = pread(work->fds[1], bytes, 3, 0);
		g_byte_array_append(work->answer, bytes, n > 0 ? (guint)n : 0);
		return true;
	}
	case TELL:
		for (unsigned i = 0; i < 4 * VMS_LOG_WAITING; i++)
			vms_log(VMS_LOG_DEBUG, "what nobody wants");
		vms_log(VMS_LOG_WARNING, "a %s", "warning\x1b[2J");
		return true;
	case WASTE:
		while (vms_budget_step(work->budget, 1))
			;
		return true;
	case OPEN: {
		const int fd = vms_jail_open(work, "a file"), none = vms_jail_open(work, "no file");
		const ssize_t n = pread(fd, bytes, 3, 0);
		g_byte_array_append(work->answer, bytes, n > 0 ? (guint)n : 0);
		close(fd);
		return none < 0;
	}
	case ALLOCATE: g_free(g_malloc0(UINT64_C(3) << 30)); return true;
	}
	return false;
}

static void *begin_count(struct vms_budget *budget)
{
	(void)budget;
	return g_new0(unsigned, 1);
}

static const struct vms_jail_service simple = {
	.name = "simple",
	.first_kind = ECHO,
	.last_kind = STAND_STILL,
	.begin = begin_count,
	.end = g_free,
	.serve = serve_simple,
};

static const struct vms_jail_service *const services[] = { &simple, NULL };

/* ---- tests ------------------------------------------------------------- */

struct fixture {
	struct vms_budget *budget;
	struct vms_jail *jail;
	GByteArray *answer;
	GError *error;
};

static void begin(struct fixture *fixture, gconstpointer data)
{
	const struct vms_budget_options options = {
		.size = sizeof(options),
		.processor_ns = 100000 * VMS_BUDGET_STEP_NS,
		.bytes = 16 << 20,
		.jail = "/proc/self/exe",
	};
	(void)data;
	fixture->budget = vms_budget_new(&options, NULL);
	fixture->jail = vms_jail_new(fixture->budget, "a test");
	fixture->answer = g_byte_array_new();
}

static void end(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	vms_jail_unref(fixture->jail);
	g_byte_array_unref(fixture->answer);
	g_clear_error(&fixture->error);
	vms_budget_unref(fixture->budget);
}

static bool call(struct fixture *fixture, enum kind kind, const void *bytes, size_t size)
{
	const struct vms_jail_request request = {
		.kind = kind, .bytes = bytes, .size = size, .budget = fixture->budget
	};
	g_clear_error(&fixture->error);
	g_byte_array_set_size(fixture->answer, 0);
	return vms_jail_call(fixture->jail, &request, fixture->answer, &fixture->error);
}

/* Large requests and answers, and several of them. */
static void test_echo(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	for (size_t size = 0; size < 4000000; size = size * 7 + 1) {
		g_autofree uint8_t *bytes = g_malloc(size + 1);
		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)(i * 31);
		g_assert_true(call(fixture, ECHO, bytes, size));
		g_assert_cmpmem(fixture->answer->data, fixture->answer->len, bytes, size);
	}
}

static void test_attacks(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	g_assert_true(call(fixture, ATTACK, NULL, 0));
	g_byte_array_append(fixture->answer, (const guint8 *)"", 1);
	g_assert_cmpstr((const char *)fixture->answer->data, ==, "");
	g_assert_false(g_file_test("/tmp/vmscope-jail-test", G_FILE_TEST_EXISTS));
}

/* Without a jail, those of the attacks that harm nothing succeed: the test can fail. */
static void test_attacks_outside(void)
{
	const long fd = open_any(), local = connect_local();
	g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(local, >=, 0);
	g_assert_cmpint(make_code(), ==, 0);
	close((int)fd);
	close((int)local);
}

/* A death is the error of one request; the third is the last. */
static void test_deaths(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	for (unsigned i = 0; i < 3; i++) {
		g_assert_true(call(fixture, ECHO, "x", 1));
		g_assert_false(call(fixture, CRASH, NULL, 0));
		g_assert_error(fixture->error, VMS_ERROR, VMS_ERROR_CLOSED);
	}
	g_assert_false(call(fixture, ECHO, "x", 1));
	g_assert_cmpstr(fixture->error->message, ==,
			"the process that reads a test has ended 3 times: it is not started again");
}

static void test_memory(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	g_assert_false(call(fixture, ALLOCATE, NULL, 0));
	g_assert_error(fixture->error, VMS_ERROR, VMS_ERROR_CLOSED);
}

static gpointer cancel_soon(gpointer budget)
{
	g_usleep(50000);
	vms_budget_cancel(budget);
	return NULL;
}

static void test_cancel(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	GThread *thread = g_thread_new("cancel", cancel_soon, fixture->budget);
	g_assert_false(call(fixture, HANG, NULL, 0));
	g_assert_error(fixture->error, VMS_ERROR, VMS_ERROR_CANCELLED);
	g_assert_true(vms_jail_has_died(fixture->error));
	g_thread_join(thread);
}

/* One that has no processor at all is not waited for as long as its budget would allow: 3 hours. */
static void test_standing_still(struct fixture *fixture, gconstpointer data)
{
	const struct vms_budget_options options = { .size = sizeof(options),
						    .processor_ns = UINT64_C(1000000000000) };
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	const struct vms_jail_request request = { .kind = STAND_STILL, .budget = budget };
	(void)data;
	g_assert_false(vms_jail_call(fixture->jail, &request, fixture->answer, &fixture->error));
	g_assert_error(fixture->error, VMS_ERROR, VMS_ERROR_CLOSED);
	g_assert_nonnull(strstr(fixture->error->message, "did not answer"));
}

static bool read_source(void *data, uint64_t offset, void *buf, size_t size)
{
	memcpy(buf, (const uint8_t *)data + offset, size);
	return offset + size <= 2000;
}

static void test_sources(struct fixture *fixture, gconstpointer data)
{
	uint8_t bytes[4000];
	(void)data;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	struct vms_file_source sources[] = {
		{ .size = 1 },
		{ .size = sizeof(bytes), .read = read_source, .data = bytes },
	};
	const struct vms_jail_request request = {
		.kind = READ, .sources = sources, .n_sources = 2, .budget = fixture->budget
	};
	g_assert_true(vms_jail_call(fixture->jail, &request, fixture->answer, &fixture->error));
	g_assert_cmpmem(fixture->answer->data, fixture->answer->len, bytes + 5, 1000);
	sources[1].size = 900;
	g_assert_false(vms_jail_call(fixture->jail, &request, fixture->answer, &fixture->error));
	g_assert_error(fixture->error, VMS_ERROR, VMS_ERROR_UNREADABLE);
	g_assert_cmpstr(fixture->error->message, ==, "it is?missing"); /* it is not trusted */
}

/* What a jail spends is spent here, and what it leaves out is told here. */
static void test_budget(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	g_assert_true(call(fixture, SPEND, NULL, 0));
	g_assert_cmpuint(vms_budget_spent(fixture->budget, VMS_BUDGET_STEPS), ==, 25000);
	g_autofree char *losses = vms_budget_describe_losses(fixture->budget);
	g_assert_cmpstr(losses, ==, "a disk: more than 0.00 s of processor time");
	g_assert_true(call(fixture, SPEND, NULL, 0));
	g_assert_cmpuint(vms_budget_spent(fixture->budget, VMS_BUDGET_STEPS), ==, 25000 + 18750);
}

/* A jail has no name of its own: what is left out is that for which it was called. */
static void test_used_up(struct fixture *fixture, gconstpointer data)
{
	g_autoptr(vms_budget) part = vms_budget_new_part(fixture->budget, "a program");
	const struct vms_jail_request request = { .kind = WASTE, .budget = part };
	(void)data;
	g_assert_true(vms_jail_call(fixture->jail, &request, fixture->answer, &fixture->error));
	g_autofree char *losses = vms_budget_describe_losses(fixture->budget);
	g_assert_cmpstr(losses, ==, "a program: more than 0.00 s of processor time");
}

static void test_kept_bytes(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	for (unsigned i = 1; i <= 10; i++) {
		g_assert_true(call(fixture, KEEP, NULL, 0));
		g_assert_cmpuint(vms_budget_spent(fixture->budget, VMS_BUDGET_BYTES), ==, i * 1000);
	}
	call(fixture, KEEP, NULL, 0);
	g_assert_false(call(fixture, CRASH, NULL, 0));
	g_assert_cmpuint(vms_budget_spent(fixture->budget, VMS_BUDGET_BYTES), ==, 0);
}

static void test_state(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	for (unsigned i = 1; i <= 3; i++) {
		g_assert_true(call(fixture, COUNT, NULL, 0));
		g_assert_cmpmem(fixture->answer->data, fixture->answer->len, &i, sizeof(i));
	}
}

/* Descriptors go along. None is left open there: there would be too many of them. */
static void test_descriptors(struct fixture *fixture, gconstpointer data)
{
	(void)data;
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int fds[] = { null, file };
	const struct vms_jail_request request = {
		.kind = FDS, .fds = fds, .n_fds = 2, .budget = fixture->budget
	};
	for (unsigned i = 0; i < 300; i++) {
		g_byte_array_set_size(fixture->answer, 0);
		g_assert_true(
			vms_jail_call(fixture->jail, &request, fixture->answer, &fixture->error));
		g_assert_cmpmem(fixture->answer->data, fixture->answer->len, "\177EL", 3);
	}
	close(file);
	close(null);
}

static int open_for_jail(void *data, const char *name)
{
	return strcmp(name, data) == 0 ? open("/proc/self/exe", O_RDONLY | O_CLOEXEC) : -1;
}

/* A file that was not known before can be asked for; the user of the jail decides. */
static void test_asking_for_files(struct fixture *fixture, gconstpointer data)
{
	char name[] = "a file";
	const struct vms_jail_request request = {
		.kind = OPEN, .open = open_for_jail, .data = name, .budget = fixture->budget
	};
	(void)data;
	g_assert_true(vms_jail_call(fixture->jail, &request, fixture->answer, &fixture->error));
	g_assert_cmpmem(fixture->answer->data, fixture->answer->len, "\177EL", 3);
}

static void keep_message(enum vms_log_level level, const char *message, void *data)
{
	if (level == VMS_LOG_WARNING)
		*(char **)data = g_strdup(message);
}

static void test_log(struct fixture *fixture, gconstpointer data)
{
	g_autofree char *message = NULL;
	(void)data;
	vms_log_set_handler(keep_message, &message, VMS_LOG_WARNING);
	g_assert_true(call(fixture, TELL, NULL, 0));
	vms_log_set_handler(NULL, NULL, VMS_LOG_WARNING);
	g_assert_cmpstr(message, ==, "a warning?[2J");
}

static void test_none(void)
{
	g_autoptr(vms_budget) budget = vms_budget_new(NULL, NULL);
	g_assert_null(vms_jail_new(budget, "a test"));
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], VMS_JAIL_ARGUMENT) == 0)
		vms_jail_serve(services);
	g_test_init(&argc, &argv, NULL);
#define ADD(name, function) g_test_add("/jail/" name, struct fixture, NULL, begin, function, end)
	ADD("echo", test_echo);
	ADD("attacks", test_attacks);
	g_test_add_func("/jail/attacks outside", test_attacks_outside);
	ADD("deaths", test_deaths);
	if (!VMS_IS_SANITIZED) /* which has no limit of memory */
		ADD("memory", test_memory);
	ADD("cancel", test_cancel);
	ADD("standing-still", test_standing_still);
	ADD("sources", test_sources);
	ADD("budget", test_budget);
	ADD("kept bytes", test_kept_bytes);
	ADD("state", test_state);
	ADD("descriptors", test_descriptors);
	ADD("asking for files", test_asking_for_files);
	ADD("log", test_log);
	ADD("used-up", test_used_up);
	g_test_add_func("/jail/none", test_none);
	return g_test_run();
}
