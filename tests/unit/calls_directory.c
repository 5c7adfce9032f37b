/* SPDX-License-Identifier: MIT */
/* What was written is read back by a reader of the tests' own. */
#include "calls/directory.h"
#include "uftrace_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KERNEL UINT64_C(0xffffffff81000000)

struct fixture {
	char *folder, *path;
	struct vms_calls_directory *directory;
};

static void open_directory(struct fixture *fixture)
{
	g_autoptr(GError) error = NULL;
	fixture->directory = vms_calls_directory_open(fixture->path, &error);
	g_assert_no_error(error);
}

static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->folder = g_dir_make_tmp("vmscope-calls-XXXXXX", NULL);
	g_assert_nonnull(fixture->folder);
	fixture->path = g_build_filename(fixture->folder, "trace", NULL);
	open_directory(fixture);
}

static void close_directory(struct fixture *fixture)
{
	g_autoptr(GError) error = NULL;
	g_assert_true(vms_calls_directory_close(g_steal_pointer(&fixture->directory), &error));
	g_assert_no_error(error);
}

static void remove_files(const char *path)
{
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
		g_autofree char *file = g_build_filename(path, name, NULL);
		g_unlink(file);
	}
	g_rmdir(path);
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	close_directory(fixture);
	remove_files(fixture->path);
	g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
	g_free(fixture->folder);
	g_free(fixture->path);
}

static void update(struct fixture *fixture)
{
	g_autoptr(GError) error = NULL;
	g_assert_true(vms_calls_directory_update(fixture->directory, &error));
	g_assert_no_error(error);
}

/* ---- what is written ---------------------------------------------------- */

static bool try_append(const struct fixture *fixture, uint64_t id, unsigned type, unsigned depth,
		       uint64_t va, GError **error)
{
	static uint64_t time = 1000;
	const uint64_t record[2] = {
		GUINT64_TO_LE(time++),
		GUINT64_TO_LE(type | 5 << 3 | depth << 6 | va << 16),
	};
	return vms_calls_directory_append(fixture->directory, id, record, sizeof(record), error);
}

static void append(const struct fixture *fixture, uint64_t id, unsigned type, unsigned depth,
		   uint64_t va)
{
	g_autoptr(GError) error = NULL;
	g_assert_true(try_append(fixture, id, type, depth, va, &error));
	g_assert_no_error(error);
}

static void stream(const struct fixture *fixture, uint32_t id, uint32_t pid, const char *name)
{
	const struct vms_calls_thread thread = { .time_ns = 1000, .pid = pid, .name = name };
	vms_calls_directory_name_stream(fixture->directory, id, &thread);
}

/* An image with one function of 0x100 bytes at `offset`, or none. */
static struct vms_calls_image *image(const struct fixture *fixture, uint64_t key, const char *path,
				     const char *function, uint64_t offset)
{
	struct vms_calls_image *image = vms_calls_directory_image(fixture->directory, key, path);
	g_assert_nonnull(image);
	if (function) {
		g_autoptr(vms_symbol_table) table = vms_symbol_table_new(path);
		vms_symbol_table_add(table, function, 0x10000 + offset, 0x100, 'T');
		vms_symbol_table_finish(table, 0x10000 + offset + 0x100);
		vms_calls_image_set_symbols(image, table, 0x10000);
	}
	return image;
}

static void map(struct vms_calls_mappings *mappings, uint64_t start, uint64_t size, uint64_t offset,
		struct vms_calls_image *image)
{
	g_assert_true(vms_calls_mappings_add(mappings, start, start + size, offset, image));
}

/* ---- tests -------------------------------------------------------------- */

static void test_format(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_calls_about about = { .command = "a\ncommand", .hostname = "guest" };
	vms_calls_directory_describe(fixture->directory, &about);
	stream(fixture, 100, 0, "cpu0");
	stream(fixture, 7, 0, "cpu\"1/x");
	append(fixture, 100, UFTRACE_ENTRY, 3, KERNEL);
	update(fixture);

	gsize size;
	g_autofree char *info = uftrace_read_file(fixture->path, "info", &size);
	static const uint8_t header[16] = "Ftrace!\0\4\0\0\0\x28\0\1\2";
	g_assert_cmpmem(info, 16, header, 16);
	uint64_t features;
	memcpy(&features, info + 16, 8);
	/* TASK_SESSION, SYM_REL_ADDR, MAX_STACK; not KERNEL: that is a trace of uftrace's own. */
	g_assert_cmphex(GUINT64_FROM_LE(features), ==, 0x62);
	g_autofree char *facts = g_strndup(info + 40, size - 40);
	g_assert_cmpstr(facts, ==,
			"exename:guest\ncmdline:a?command\nosinfo:lines=3\n"
			"osinfo:kernel=unknown\nosinfo:hostname=guest\nosinfo:distro=unknown\n"
			"taskinfo:lines=2\ntaskinfo:nr_tid=2\ntaskinfo:tids=7,100\n");
	g_autofree char *tasks = uftrace_read_file(fixture->path, "task.txt", NULL);
	g_assert_cmpstr(
		tasks, ==,
		"SESS timestamp=0.000001000 pid=7 sid=0000000000000000 exename=\"cpu:1:x\"\n"
		"TASK timestamp=0.000001000 tid=7 pid=7\n"
		"SESS timestamp=0.000001000 pid=100 sid=0000000000000000 exename=\"cpu0\"\n"
		"TASK timestamp=0.000001000 tid=100 pid=100\n");

	struct uftrace_record record = uftrace_read_record(fixture->path, "100.dat", 0);
	g_assert_cmpuint(record.type, ==, UFTRACE_ENTRY);
	g_assert_cmpuint(record.depth, ==, 3);
	g_assert_cmphex(record.address, ==, 0xffff81000000);
	struct stat status;
	g_assert_cmpint(stat(fixture->path, &status), ==, 0);
	g_assert_cmpint(status.st_mode & 0777, ==, 0700);
	for (const char *const *name = (const char *const[]) { "info", "100.dat", NULL }; *name;
	     name++) {
		g_autofree char *path = g_build_filename(fixture->path, *name, NULL);
		g_assert_cmpint(stat(path, &status), ==, 0);
		g_assert_cmpint(status.st_mode & 0777, ==, 0600);
	}
}

/* A thread with its own name gets it, and its process keeps its name. */
static void test_threads(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	stream(fixture, 12, 10, "worker");
	stream(fixture, 11, 10, "server");
	stream(fixture, 10, 10, "sh");
	stream(fixture, 10, 10, "server");
	update(fixture);
	g_autofree char *tasks = uftrace_read_file(fixture->path, "task.txt", NULL);
	g_auto(GStrv) lines = g_strsplit(tasks, "\n", -1);
	static const char *const expected[] = { "server\"", "tid=10 pid=10", "tid=11 pid=10",
						"worker\"", "tid=12 pid=10", "server\"" };
	g_assert_cmpuint(g_strv_length(lines), ==, G_N_ELEMENTS(expected) + 1);
	for (unsigned i = 0; i < G_N_ELEMENTS(expected); i++)
		g_assert_true(g_str_has_suffix(lines[i], expected[i]));
}

/* Its first records come before its name. */
static void test_named_late(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	append(fixture, 7, UFTRACE_ENTRY, 0, 0xffff800000001000);
	update(fixture);
	g_autofree char *before = uftrace_read_file(fixture->path, "task.txt", NULL);
	g_assert_nonnull(strstr(before, "tid=7 pid=7"));
	g_assert_nonnull(strstr(before, "unknown\""));
	stream(fixture, 7, 7, "late");
	update(fixture);
	g_autofree char *after = uftrace_read_file(fixture->path, "task.txt", NULL);
	g_assert_nonnull(strstr(after, "late\""));
	g_assert_null(strstr(after, "unknown"));
}

static void test_not_empty(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	stream(fixture, 1, 0, "x");
	update(fixture);
	g_assert_null(vms_calls_directory_open(fixture->path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_EXISTS);
	g_clear_error(&error);
	g_autofree char *below = g_build_filename(fixture->folder, "no", "such", NULL);
	g_assert_null(vms_calls_directory_open(below, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_clear_error(&error);
	g_autofree char *file = g_build_filename(fixture->path, "info", NULL);
	g_assert_null(vms_calls_directory_open(file, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);

	/* An empty one is taken. */
	close_directory(fixture);
	remove_files(fixture->path);
	g_assert_cmpint(g_mkdir(fixture->path, 0700), ==, 0);
	open_directory(fixture);
}

static void refuses(const char *path, const char *words)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_calls_directory_open(path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_PERMISSION);
	g_assert_nonnull(strstr(error->message, words));
}

/* Nothing is written where another user may have put links, or through such a link. */
static void test_others(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const uid_t other = 65534;
	g_autofree char *folder = g_build_filename(fixture->folder, "others", NULL);
	g_autofree char *link = g_build_filename(fixture->folder, "link", NULL);
	g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
	g_assert_cmpint(g_chmod(folder, 0720), ==, 0);
	refuses(folder, "others may write to it");
	g_assert_cmpint(g_chmod(folder, 0702), ==, 0);
	refuses(folder, "others may write to it");
	g_assert_cmpint(g_chmod(folder, 0755), ==, 0);
	struct vms_calls_directory *taken = vms_calls_directory_open(folder, NULL);
	g_assert_nonnull(taken);
	vms_calls_directory_discard(taken);
	g_assert_false(g_file_test(folder, G_FILE_TEST_EXISTS));
	if (geteuid() == 0) {
		g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
		g_assert_cmpint(chown(folder, other, other), ==, 0);
		refuses(folder, "it belongs to another user");
		g_assert_cmpint(chown(folder, 0, 0), ==, 0);
		g_assert_cmpint(symlink("others", link), ==, 0);
		g_assert_cmpint(lchown(link, other, other), ==, 0);
		refuses(link, "another user");
		g_unlink(link);
		g_rmdir(folder);
	}
}

/* Not even a link of this user is followed inside of the directory. */
static void test_planted_link(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *victim = g_build_filename(fixture->folder, "victim", NULL);
	g_autofree char *records = g_build_filename(fixture->path, "7.dat", NULL);
	g_autofree char *names = g_build_filename(fixture->path, ".new", NULL);
	g_autofree char *content = NULL;
	g_assert_true(g_file_set_contents(victim, "precious", -1, NULL));
	g_assert_cmpint(symlink("../victim", names), ==, 0);
	stream(fixture, 6, 0, "cpu0");
	g_assert_false(vms_calls_directory_update(fixture->directory, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_clear_error(&error);
	update(fixture); /* the link was removed, as what is left of a failure is */
	g_assert_cmpint(symlink("../victim", records), ==, 0);
	g_assert_false(try_append(fixture, 7, UFTRACE_ENTRY, 0, KERNEL, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_assert_true(g_file_get_contents(victim, &content, NULL, NULL));
	g_assert_cmpstr(content, ==, "precious");
	g_unlink(victim);
}

static void test_kernel(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_calls_mappings *kernel = vms_calls_directory_kernel(fixture->directory);
	stream(fixture, 100, 0, "cpu0");
	append(fixture, 100, UFTRACE_ENTRY, 0, KERNEL + 0x200); /* before anybody knows */
	map(kernel, KERNEL, 0x1000000, 0, image(fixture, 0, "vmlinux", "do_syscall", 0x200));
	map(kernel, KERNEL + 0x3f000000, 0x4000, 0, image(fixture, 0, "ext4", "ext4_read", 0x10));
	append(fixture, 100, UFTRACE_ENTRY, 1, KERNEL + 0x3f000010);
	append(fixture, 100, UFTRACE_EXIT, 1, KERNEL + 0x3f000010);
	append(fixture, 100, UFTRACE_LOST, 1, 12345);
	/* Another module is loaded where the first was. */
	map(kernel, KERNEL + 0x3f001000, 0x8000, 0, image(fixture, 0, "libc", "xfs_read", 0x20));
	append(fixture, 100, UFTRACE_ENTRY, 0, KERNEL + 0x3f001020);
	close_directory(fixture);
	uftrace_assert_name(fixture->path, "100.dat", 0, "do_syscall");
	uftrace_assert_name(fixture->path, "100.dat", 1, "ext4_read");
	uftrace_assert_name(fixture->path, "100.dat", 2, "ext4_read");
	g_assert_cmpuint(uftrace_read_record(fixture->path, "100.dat", 3).address, ==, 12345);
	uftrace_assert_name(fixture->path, "100.dat", 4, "xfs_read");
	/* The kernel's records are where the kernel has them. */
	g_assert_cmphex(uftrace_read_record(fixture->path, "100.dat", 0).address, ==,
			0xffff81000200);
}

/* Programs at one address, files of one name, and a library that processes map elsewhere. */
static void test_processes(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_calls_image *libc = image(fixture, 3, "/lib/libc.so.6", "malloc", 0x2000);
	struct vms_calls_image *programs[] = {
		image(fixture, 1, "/bin/app", "first", 0x1000),
		image(fixture, 2, "/bin/app", "second", 0x1000),
		image(fixture, 4, "/opt/my [app]\n", NULL, 0),
	};
	static const char *const names[] = { "first", "second", "my__app__+0x1000" };
	stream(fixture, 100, 0, "cpu0");
	for (unsigned i = 0; i < 3; i++) {
		g_autoptr(vms_calls_mappings) process = vms_calls_mappings_new(fixture->directory);
		uint64_t library = 0x7f0000000000 + i * 0x1000000;
		map(process, 0x401000, 0x3000, 0x1000, programs[i]);
		map(process, library, 0x4000, 0x1000, libc);
		vms_calls_directory_set_space(fixture->directory, 100, process);
		append(fixture, 100, UFTRACE_ENTRY, 0, 0x401000);
		append(fixture, 100, UFTRACE_ENTRY, 1, library + 0x1000);
		append(fixture, 100, UFTRACE_EXIT, 1, library + 0x1000);
		vms_calls_directory_set_space(fixture->directory, 100, NULL);
		append(fixture, 100, UFTRACE_EXIT, 0, 0x401000); /* of a process that is gone */
	}
	update(fixture);
	for (unsigned i = 0; i < 3; i++) {
		uftrace_assert_name(fixture->path, "100.dat", 4 * i, names[i]);
		uftrace_assert_name(fixture->path, "100.dat", 4 * i + 1, "malloc");
		uftrace_assert_name(fixture->path, "100.dat", 4 * i + 2, "malloc");
		uftrace_assert_name(fixture->path, "100.dat", 4 * i + 3, names[i]);
	}
	g_assert_cmphex(uftrace_read_record(fixture->path, "100.dat", 0).address, ==, 0x401000);
}

/* A file that is mapped further than at first has a second place, and the same symbols. */
static void test_grown(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_calls_mappings) process = vms_calls_mappings_new(fixture->directory);
	struct vms_calls_image *app = image(fixture, 1, "/bin/app", "late", 0x5000);
	map(process, 0x401000, 0x1000, 0x1000, app);
	map(process, 0x404000, 0x4000, 0x4000, app);
	stream(fixture, 100, 0, "cpu0");
	vms_calls_directory_set_space(fixture->directory, 100, process);
	append(fixture, 100, UFTRACE_ENTRY, 0, 0x401010);
	append(fixture, 100, UFTRACE_ENTRY, 1, 0x405000);
	g_clear_pointer(&process, vms_calls_mappings_unref);
	close_directory(fixture);
	uftrace_assert_name(fixture->path, "100.dat", 0, "app+0x1010");
	uftrace_assert_name(fixture->path, "100.dat", 1, "late");
}

/* What ran before there were processes does not get a program's names, nor do unknown mappings. */
static void test_strays(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_calls_mappings) process = vms_calls_mappings_new(fixture->directory);
	g_autoptr(vms_calls_mappings) other = vms_calls_mappings_new(fixture->directory);
	struct vms_calls_image *app = image(fixture, 1, "/bin/app", "main", 0x1000);
	stream(fixture, 100, 0, "cpu0");
	append(fixture, 100, UFTRACE_ENTRY, 0, 0x401000); /* firmware */
	map(process, 0x401000, 0x1000, 0x1000, app);
	vms_calls_directory_set_space(fixture->directory, 100, process);
	append(fixture, 100, UFTRACE_ENTRY, 1, 0x401000);
	/* A jump to nowhere that is at the program's place in the trace. */
	update(fixture);
	uint64_t place = uftrace_read_record(fixture->path, "100.dat", 1).address;
	vms_calls_directory_set_space(fixture->directory, 100, other);
	append(fixture, 100, UFTRACE_ENTRY, 2, place);
	g_clear_pointer(&process, vms_calls_mappings_unref);
	g_clear_pointer(&other, vms_calls_mappings_unref);
	close_directory(fixture);
	uftrace_assert_name(fixture->path, "100.dat", 0, NULL);
	uftrace_assert_name(fixture->path, "100.dat", 1, "main");
	uftrace_assert_name(fixture->path, "100.dat", 2, NULL);
	g_assert_cmphex(uftrace_read_record(fixture->path, "100.dat", 0).address, ==, 0x401000);
}

struct learning {
	struct vms_calls_image *image;
	unsigned asked;
};

static void learn(struct vms_calls_mappings *mappings, uint64_t va, void *data)
{
	struct learning *learning = data;
	learning->asked++;
	if (va < 0x500000)
		map(mappings, 0x401000, 0x1000, 0x1000, learning->image);
}

static void test_learn(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_calls_mappings) process = vms_calls_mappings_new(fixture->directory);
	struct learning learning = { .image = image(fixture, 1, "/bin/app", "main", 0x1000) };
	vms_calls_directory_set_learn(fixture->directory, learn, &learning);
	stream(fixture, 100, 0, "cpu0");
	append(fixture, 100, UFTRACE_ENTRY, 0, 0x401000);
	g_assert_cmpuint(learning.asked, ==, 0); /* whose address is it? */
	vms_calls_directory_set_space(fixture->directory, 100, process);
	for (unsigned i = 0; i < 3; i++) {
		append(fixture, 100, UFTRACE_ENTRY, 0, 0x401000);
		append(fixture, 100, UFTRACE_ENTRY, 0, 0x7f0000000000 + i);
	}
	g_assert_cmpuint(learning.asked, ==, 2);
	g_clear_pointer(&process, vms_calls_mappings_unref);
	close_directory(fixture);
	uftrace_assert_name(fixture->path, "100.dat", 1, "main");
	uftrace_assert_name(fixture->path, "100.dat", 2, NULL);
}

static void assert_symbol(const char *text, uint64_t offset, const char *expected)
{
	g_autofree char *name = uftrace_find_symbol(text, offset);
	g_assert_cmpstr(name, ==, expected);
}

static void test_symbols(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("m");
	struct vms_calls_image *m = image(fixture, 0, "m", NULL, 0);
	vms_symbol_table_add(table, "below", KERNEL - 0x10, 0x10, 'T');
	vms_symbol_table_add(table, "two words\t\"\\;\xff", KERNEL, 0x10, 't');
	vms_symbol_table_add(table, "alias", KERNEL, 0x20, 'T');
	vms_symbol_table_add(table, "data", KERNEL + 0x10, 0x10, 'd');
	vms_symbol_table_add(table, "longjmp", KERNEL + 0x40, 0x10, 'W');
	vms_symbol_table_add(table, "_longjmp", KERNEL + 0x50, 0x10, 'w');
	vms_symbol_table_finish(table, KERNEL + 0x60);
	vms_calls_image_set_symbols(m, table, KERNEL);
	update(fixture);
	g_autofree char *text = uftrace_read_file(fixture->path, "m.sym", NULL);
	assert_symbol(text, 0, "two words?:::?");
	assert_symbol(text, 0xf, "two words?:::?");
	assert_symbol(text, 0x10, NULL);
	assert_symbol(text, 0x4f, "longjmp.0");
	assert_symbol(text, 0x50, "_longjmp");
	assert_symbol(text, 0x5f, "_longjmp");
	assert_symbol(text, 0x60, NULL);
	g_assert_null(strstr(text, "below"));
}

/* Nobody has asked for an update when the process is killed. */
static void test_killed(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_calls_mappings) process = vms_calls_mappings_new(fixture->directory);
	struct vms_calls_image *program = image(fixture, 1, "/bin/app", NULL, 0);
	stream(fixture, 100, 0, "cpu0");
	map(process, 0x401000, 0x3000, 0x1000, program);
	update(fixture);
	vms_calls_directory_set_space(fixture->directory, 100, process);
	append(fixture, 100, UFTRACE_ENTRY, 0, 0x401230);
	uftrace_assert_name(fixture->path, "100.dat", 0, "app+0x1230");
	/* Files that grow are not written all the time, but as soon as they may be. */
	append(fixture, 100, UFTRACE_ENTRY, 1, 0x401340);
	g_autofree char *name = NULL;
	for (unsigned i = 0; i < 10000 && !name; i++) {
		g_usleep(1000);
		append(fixture, 100, UFTRACE_ENTRY, 2, 0x401230);
		g_autofree char *text = uftrace_read_file(fixture->path, "app.sym", NULL);
		name = uftrace_find_symbol(text, 0x1340);
	}
	g_assert_cmpstr(name, ==, "app+0x1340");
}

static void test_hostile_mappings(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_calls_mappings) process = vms_calls_mappings_new(fixture->directory);
	struct vms_calls_image *app = image(fixture, 1, "/bin/app", "main", 0x1000);
	g_assert_false(vms_calls_mappings_add(process, 0x1000, 0x1000, 0, app));
	g_assert_false(vms_calls_mappings_add(process, 0x2000, 0x1000, 0, app));
	g_assert_false(vms_calls_mappings_add(process, 0, UINT64_MAX, 0, app));
	g_assert_false(vms_calls_mappings_add(process, 0x1000, 0x2000, UINT64_MAX, app));
	/* All of the room, and more. */
	unsigned n = 0;
	for (uint64_t i = 1; i < 3000; i++) {
		g_autofree char *path = g_strdup_printf("/bin/%" G_GUINT64_FORMAT, i);
		n += vms_calls_mappings_add(process, 0, UINT64_C(1) << 36, 0,
					    image(fixture, i, path, NULL, 0));
	}
	g_assert_cmpuint(n, >, 100);
	g_assert_cmpuint(n, <, 2999);
	stream(fixture, 100, 0, "cpu0");
	vms_calls_directory_set_space(fixture->directory, 100, process);
	append(fixture, 100, UFTRACE_ENTRY, 0, 0x1000);
	append(fixture, 100, UFTRACE_EXIT, 0, 0x2000); /* of another call */
	append(fixture, 100, UFTRACE_EXIT, 0, 0x2000); /* of none */
	for (unsigned i = 0; i < 70000; i++)
		append(fixture, 100, UFTRACE_ENTRY, 1023, 0x1000);
}

static void test_max_stack(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	stream(fixture, 100, 0, "cpu0");
	for (unsigned i = 0; i < 3000; i++)
		append(fixture, 100, UFTRACE_ENTRY, MIN(i, 1023), KERNEL);
	update(fixture);
	g_autofree char *info = uftrace_read_file(fixture->path, "info", NULL);
	uint16_t max_stack;
	memcpy(&max_stack, info + 32, 2);
	g_assert_cmpuint(GUINT16_FROM_LE(max_stack), >=, 3000);
}

/* ---- faults ------------------------------------------------------------- */

static void test_bad_calls(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_false(try_append(fixture, UINT64_C(1) << 31, UFTRACE_ENTRY, 0, 0, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	g_clear_error(&error);
	stream(fixture, 0, 0, "none");
	g_assert_false(try_append(fixture, 0, UFTRACE_ENTRY, 0, 0, NULL));
	stream(fixture, 1, 0, "x");
	g_assert_false(vms_calls_directory_append(fixture->directory, 1, "torn", 4, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	vms_calls_directory_set_space(fixture->directory, 77, NULL);
}

/* More streams than files may be open. */
static void test_many_streams(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct rlimit old, low = { 256, 256 };
	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &old), ==, 0);
	low.rlim_max = old.rlim_max;
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &low), ==, 0);
	for (uint32_t id = 1; id <= 1000; id++)
		stream(fixture, id, 0, "task");
	for (unsigned round = 0; round < 3; round++)
		for (uint32_t id = 1; id <= 1000; id++)
			append(fixture, id, round % 2, 0, KERNEL + id);
	update(fixture);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &old), ==, 0);
	for (uint32_t id = 1; id <= 1000; id += 111) {
		g_autofree char *name = g_strdup_printf("%u.dat", id);
		gsize size;
		g_free(uftrace_read_file(fixture->path, name, &size));
		g_assert_cmpuint(size, ==, 48);
		g_assert_cmphex(uftrace_read_record(fixture->path, name, 2).address, ==,
				(KERNEL + id) & 0xffffffffffff);
	}
	struct vms_calls_written written = vms_calls_directory_written(fixture->directory);
	g_assert_cmpuint(written.records, ==, 3000);
	g_assert_cmpuint(written.bytes, ==, 48000);
	g_assert_cmpuint(written.streams, ==, 1000);
}

/* No more room, in the middle of a record. */
static void test_full(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	struct rlimit old, low = { 100, 100 };
	uint64_t records[20] = { 0 };
	for (unsigned i = 0; i < 10; i++)
		records[2 * i + 1] = GUINT64_TO_LE(UFTRACE_ENTRY | 5 << 3 | KERNEL << 16);
	stream(fixture, 100, 0, "cpu0");
	update(fixture);

	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
	low.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &low), ==, 0);
	bool done = vms_calls_directory_append(fixture->directory, 100, records, sizeof(records),
					       &error);
	bool again = try_append(fixture, 100, UFTRACE_ENTRY, 0, KERNEL, NULL);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
	signal(SIGXFSZ, SIG_DFL);

	g_assert_false(done);
	g_assert_false(again);
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_assert_nonnull(strstr(error->message, "/100.dat: File too large; 96 bytes"));
	g_assert_nonnull(strstr(error->message, "64 more"));
	gsize size;
	g_free(uftrace_read_file(fixture->path, "100.dat", &size));
	g_assert_cmpuint(size, ==, 96);
	g_assert_cmpuint(vms_calls_directory_written(fixture->directory).records, ==, 6);
}

/* A file of names that cannot be written leaves the old one. */
static void test_full_names(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	struct rlimit old, low = { 100, 100 };
	stream(fixture, 1, 0, "old");
	update(fixture);
	g_autofree char *before = uftrace_read_file(fixture->path, "task.txt", NULL);
	for (uint32_t id = 2; id < 20; id++)
		stream(fixture, id, 0, "new");

	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
	low.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &low), ==, 0);
	bool done = vms_calls_directory_update(fixture->directory, &error);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
	signal(SIGXFSZ, SIG_DFL);

	g_assert_false(done);
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_autofree char *after = uftrace_read_file(fixture->path, "task.txt", NULL);
	g_assert_cmpstr(after, ==, before);
	/* Written when there is room again. */
	update(fixture);
	g_autofree char *later = uftrace_read_file(fixture->path, "task.txt", NULL);
	g_assert_nonnull(strstr(later, "tid=19 "));
}

#define ADD(name)                                                                                  \
	g_test_add("/calls_directory/" #name, struct fixture, NULL, set_up, test_##name, tear_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	ADD(format);
	ADD(threads);
	ADD(named_late);
	ADD(not_empty);
	ADD(others);
	ADD(planted_link);
	ADD(kernel);
	ADD(processes);
	ADD(grown);
	ADD(strays);
	ADD(learn);
	ADD(symbols);
	ADD(hostile_mappings);
	ADD(killed);
	ADD(max_stack);
	ADD(bad_calls);
	ADD(many_streams);
	ADD(full);
	ADD(full_names);
	return g_test_run();
}
