/* SPDX-License-Identifier: MIT */
/* Whose memory is read at the word of a QMP socket: that of the process that answers, or nobody's.
 */
#include "machine/qemu/qemu.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>

#define SIZE 4096

/* A fake QEMU: we listen, a child answers. Its "guest memory" is at `memory`, as ours is. */
struct fake {
	char *folder, *path;
	int listener;
	char *memory;
	pid_t child;
};

static const char *result_of(const char *line, const char *memory)
{
	static char text[512];
	if (strstr(line, "gpa2hva"))
		snprintf(text, sizeof(text),
			 "\"Host virtual address for 0x0 (ram) is 0x%zx\\r\\n\"", (size_t)memory);
	else if (strstr(line, "info mtree"))
		snprintf(text, sizeof(text),
			 "\"FlatView #0\\r\\n AS \\\"memory\\\", root: system\\r\\n"
			 " Root memory region: system\\r\\n"
			 "  0000000000000000-0000000000000fff (prio 0, ram): ram\\r\\n\"");
	else if (strstr(line, "query-cpus-fast"))
		return "[{\"cpu-index\": 0, \"thread-id\": 1}]";
	else if (strstr(line, "query-target"))
		return "{\"arch\": \"x86_64\"}";
	else if (strstr(line, "query-status"))
		return "{\"running\": true}";
	else
		return "{}";
	return text;
}

/* Answers one client until it has gone. */
static void answer(const struct fake *fake)
{
	static const char greeting[] = "{\"QMP\": {\"version\": {\"qemu\": {\"major\": 10, "
				       "\"minor\": 0, \"micro\": 2}}, \"capabilities\": []}}\n";
	int fd = accept(fake->listener, NULL, NULL);
	FILE *in = fdopen(fd, "r");
	char line[4096];
	dprintf(fd, greeting);
	while (in && fgets(line, sizeof(line), in)) {
		const char *id = strstr(line, "\"id\":");
		dprintf(fd, "{\"return\": %s, \"id\": %lld}\n", result_of(line, fake->memory),
			id ? atoll(id + strlen("\"id\":")) : 0);
	}
}

static void start(struct fake *fake)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	fake->folder = g_dir_make_tmp("vmscope-XXXXXX", NULL);
	fake->path = g_build_filename(fake->folder, "qmp", NULL);
	g_strlcpy(address.sun_path, fake->path, sizeof(address.sun_path));
	fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(fake->listener, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	g_assert_cmpint(listen(fake->listener, 5), ==, 0);
	fake->memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g_assert_true(fake->memory != MAP_FAILED);
	memset(fake->memory, 'o', SIZE); /* ours */
	fake->child = fork();
	if (fake->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(fake->memory, 'c', SIZE);
		for (;;)
			answer(fake);
	}
}

static void finish(struct fake *fake)
{
	kill(fake->child, SIGKILL);
	g_assert_cmpint(waitpid(fake->child, NULL, 0), ==, fake->child);
	close(fake->listener);
	unlink(fake->path);
	rmdir(fake->folder);
	munmap(fake->memory, SIZE);
	g_free(fake->path);
	g_free(fake->folder);
}

static bool open_as(struct vms_qemu *qemu, const struct fake *fake, pid_t pid, GError **error)
{
	const char *const addresses[] = { fake->path, NULL };
	*qemu = (struct vms_qemu) { 0 };
	return vms_qemu_open(qemu, addresses, pid, error);
}

static void test_memory(void)
{
	struct fake fake;
	struct vms_qemu qemu;
	char byte = 0;
	g_autoptr(GError) error = NULL;
	start(&fake);

	g_assert_true(open_as(&qemu, &fake, fake.child, &error));
	g_assert_no_error(error);
	g_assert_cmpint(qemu.process.pid, ==, fake.child);
	g_assert_true(vms_ram_read(vms_qemu_ram(&qemu), 0, &byte, 1));
	g_assert_cmpint(byte, ==, 'c');
	vms_qemu_close(&qemu);

	/* The one who called listen(2), and whom the kernel calls the peer, does not answer. */
	g_assert_false(open_as(&qemu, &fake, getpid(), &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_PERMISSION);
	g_assert_nonnull(strstr(error->message, fake.path));
	g_assert_false(vms_ram_read(vms_qemu_ram(&qemu), 0, &byte, 1));
	vms_qemu_close(&qemu);
	g_clear_error(&error);

	g_assert_false(open_as(&qemu, &fake, getppid(), &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_PERMISSION);
	vms_qemu_close(&qemu);
	g_clear_error(&error);

	/* Of any process that answers there: this one is no QEMU. */
	g_assert_true(open_as(&qemu, &fake, 0, &error));
	g_assert_no_error(error);
	g_assert_cmpint(qemu.machine.info.pid, ==, 0);
	g_assert_false(vms_ram_read(vms_qemu_ram(&qemu), 0, &byte, 1));
	vms_qemu_close(&qemu);
	finish(&fake);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/identify/memory", test_memory);
	return g_test_run();
}
