/* SPDX-License-Identifier: MIT */
/* Names that lead to everything but a regular file, out of a root, or to another file than is
 * meant. */
#include "base/foreign_file.h"
#include "base/budget.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
	char *root;
	struct vms_budget *budget;
	struct vms_foreign_files *files;
};

static char *name_inside(const struct fixture *fixture, const char *name)
{
	return g_build_filename(fixture->root, name, NULL);
}

static void write_file(const struct fixture *fixture, const char *name, const char *text)
{
	g_autofree char *path = name_inside(fixture, name);
	g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->root = g_dir_make_tmp("vmscope-foreign-XXXXXX", NULL);
	fixture->budget = vms_budget_new(NULL, NULL);
	fixture->files = vms_foreign_files_new(fixture->budget);
	write_file(fixture, "regular", "some bytes");
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	vms_foreign_files_unref(fixture->files);
	vms_budget_unref(fixture->budget);
	g_autoptr(GDir) dir = g_dir_open(fixture->root, 0, NULL);
	const char *name;
	while ((name = g_dir_read_name(dir))) {
		g_autofree char *path = name_inside(fixture, name);
		g_remove(path);
	}
	g_assert_cmpint(g_rmdir(fixture->root), ==, 0);
	g_free(fixture->root);
}

/* Opens a name, and returns its first bytes as a text; NULL if it cannot be opened. */
static char *read_name(struct fixture *fixture, const struct vms_foreign_name *name, int *number)
{
	char bytes[64] = "";
	struct vms_foreign_file *file =
		vms_foreign_files_open(fixture->files, name, fixture->budget, number);
	if (!file)
		return NULL;
	const size_t size = MIN(sizeof(bytes) - 1, (size_t)vms_foreign_file_status(file)->st_size);
	g_assert_true(vms_foreign_file_read(file, 0, bytes, size));
	g_assert_false(vms_foreign_file_read(file, (uint64_t)vms_foreign_file_status(file)->st_size,
					     bytes, 1));
	vms_foreign_file_close(file);
	return g_strdup(bytes);
}

static char *read_below(struct fixture *fixture, const char *path, int *number)
{
	const struct vms_foreign_name name = { .root = fixture->root, .path = path };
	return read_name(fixture, &name, number);
}

static void make_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
	g_assert_cmpint(bind(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	close(fd);
}

/* A FIFO would block, a device could do anything, a socket cannot be opened. */
static void test_kinds(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const names[] = { "fifo", "socket", "folder", "link to fifo", "device" };
	g_autofree char *fifo = name_inside(fixture, names[0]);
	g_autofree char *socket = name_inside(fixture, names[1]);
	g_autofree char *folder = name_inside(fixture, names[2]);
	g_autofree char *link = name_inside(fixture, names[3]);
	g_autofree char *device = name_inside(fixture, names[4]);
	int number;
	g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
	make_socket(socket);
	g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
	g_assert_cmpint(symlink("fifo", link), ==, 0);
	const bool has_device = mknod(device, S_IFCHR | 0600, makedev(1, 3)) == 0;
	for (size_t i = 0; i < G_N_ELEMENTS(names) - !has_device; i++) {
		g_assert_null(read_below(fixture, names[i], &number));
		g_assert_cmpint(number, ==, EINVAL);
	}
	g_autofree char *text = read_below(fixture, "/regular", &number);
	g_assert_cmpstr(text, ==, "some bytes");
	g_assert_null(read_below(fixture, "missing", &number));
	g_assert_cmpint(number, ==, ENOENT);
	g_assert_null(vms_budget_describe_losses(fixture->budget));
}

/* An absolute link is one inside the root; no link leads to a link of /proc. */
static void test_links(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const links[][2] = { { "inside", "/regular" },
						{ "climbing", "/../../regular" },
						{ "outside", "/etc/passwd" },
						{ "loop", "loop" } };
	int number;
	for (size_t i = 0; i < G_N_ELEMENTS(links); i++) {
		g_autofree char *path = name_inside(fixture, links[i][0]);
		g_assert_cmpint(symlink(links[i][1], path), ==, 0);
		g_autofree char *text = read_below(fixture, links[i][0], &number);
		g_assert_cmpint(text != NULL, ==, i < 2);
	}
	const struct vms_foreign_name magic = { .path = "/proc/self/exe" };
	g_assert_null(read_name(fixture, &magic, &number));
	g_assert_cmpint(number, ==, ELOOP);
	g_autofree char *long_path = g_strnfill(5000, 'a');
	g_assert_null(read_below(fixture, long_path, &number));
	g_assert_cmpint(number, ==, ENAMETOOLONG);
}

/* A name of a process: of its own root, and of the very file that is mapped. */
static void test_process(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *path = name_inside(fixture, "regular");
	struct stat status;
	int number;
	g_assert_cmpint(stat(path, &status), ==, 0);
	struct vms_foreign_name name = {
		.pid = getpid(), .path = path, .device = status.st_dev, .inode = status.st_ino
	};
	g_autofree char *text = read_name(fixture, &name, &number);
	g_assert_cmpstr(text, ==, "some bytes");
	name.inode++;
	g_assert_null(read_name(fixture, &name, &number));
	g_assert_cmpint(number, ==, EINVAL);
	name.pid = 0x3fffffff; /* there is none: its root is hidden */
	g_assert_null(read_name(fixture, &name, &number));
	name.inode--;
	g_autofree char *again = read_name(fixture, &name, &number);
	g_assert_cmpstr(again, ==, "some bytes");
	name.inode = 0;
	g_assert_null(read_name(fixture, &name, &number));
}

/* A mapped file is found although its name leads to a FIFO now. */
static void test_mapping(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *path = name_inside(fixture, "regular");
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int number;
	void *at = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
	g_assert_true(at != MAP_FAILED);
	close(fd);
	g_assert_cmpint(g_unlink(path), ==, 0);
	g_assert_cmpint(mkfifo(path, 0600), ==, 0);
	const struct vms_foreign_name name = {
		.pid = getpid(), .start = (uintptr_t)at, .end = (uintptr_t)at + page, .path = path
	};
	g_autofree char *text = read_name(fixture, &name, &number);
	if (geteuid() == 0)
		g_assert_cmpstr(text, ==, "some bytes");
	else
		g_assert_null(text);
	munmap(at, page);
}

/* Swaps the name between a file, a FIFO and a link, as fast as it can. */
static void swap_forever(const char *root)
{
	g_autofree char *name = g_build_filename(root, "swapped", NULL);
	g_autofree char *new_name = g_build_filename(root, "new", NULL);
	for (unsigned i = 0;; i++) {
		if (i % 3 == 0)
			(void)!mkfifo(new_name, 0600);
		else if (i % 3 == 1)
			(void)!symlink("/etc/passwd", new_name);
		else
			close(open(new_name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		(void)!rename(new_name, name);
	}
}

static void test_race(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	unsigned opened = 0;
	int number;
	const pid_t pid = fork();
	if (pid == 0)
		swap_forever(fixture->root);
	for (unsigned i = 0; i < 3000; i++) {
		g_autofree char *text = read_below(fixture, "swapped", &number);
		if (!text)
			continue;
		g_assert_cmpstr(text, ==, ""); /* the file has no bytes */
		opened++;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	g_test_message("%u of 3000 were opened", opened);
	g_assert_null(vms_budget_describe_losses(fixture->budget));
}

static void test_budget(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_budget_options options = { .size = sizeof(options),
						    .processor_ns = 1000000 };
	const struct vms_foreign_name name = { .root = fixture->root, .path = "regular" };
	g_autoptr(vms_budget) small = vms_budget_new(&options, NULL);
	unsigned opened = 0;
	int number = 0;
	for (unsigned i = 0; i < 100; i++) {
		struct vms_foreign_file *file =
			vms_foreign_files_open(fixture->files, &name, small, &number);
		opened += file != NULL;
		vms_foreign_file_close(file);
	}
	g_assert_cmpuint(opened, ==, 25); /* of 40 us each */
	g_assert_cmpint(number, ==, EDQUOT);
	vms_budget_cancel(fixture->budget);
	g_assert_null(vms_foreign_files_open(fixture->files, &name, NULL, &number));
	g_assert_cmpint(number, ==, ECANCELED);
}

static void test_copy(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_foreign_name name = { .root = fixture->root, .path = "regular" };
	char bytes[16] = "";
	int number;
	struct vms_foreign_file *file =
		vms_foreign_files_open(fixture->files, &name, NULL, &number);
	g_assert_nonnull(file);
	const int fd = vms_foreign_file_copy(file, 1000);
	vms_foreign_file_close(file);
	g_assert_cmpint(pread(fd, bytes, sizeof(bytes), 0), ==, 10);
	g_assert_cmpstr(bytes, ==, "some bytes");
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *path;
		void (*test)(struct fixture *fixture, gconstpointer data);
	} tests[] = {
		{ "/foreign-file/kinds", test_kinds },
		{ "/foreign-file/links", test_links },
		{ "/foreign-file/process", test_process },
		{ "/foreign-file/mapping", test_mapping },
		{ "/foreign-file/race", test_race },
		{ "/foreign-file/budget", test_budget },
		{ "/foreign-file/copy", test_copy },
	};
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].path, struct fixture, NULL, set_up, tests[i].test, tear_down);
	return g_test_run();
}
