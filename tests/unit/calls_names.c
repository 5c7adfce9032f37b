/* SPDX-License-Identifier: MIT */
/*
 * What a trace calls the functions of a guest whose processes come, change and go: told by what is
 * written, of a guest that maps what the test says.
 */
#include "arch/x86_64.h"
#include "calls/names.h"
#include "elf_encoder.h"
#include "fake_guest.h"
#include "fake_machine.h"
#include "symbol/binary.h"
#include "uftrace_reader.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>

#define STREAM 100
#define KERNEL UINT64_C(0xffffffff81000000)
#define MODULE (KERNEL + 0x3f000000)
#define BLOB   (MODULE - 0x120) /* ends where the module begins */
#define BIOS   UINT64_C(0xf0000)
/* Of two processes, and of one that was there before. */
#define MM	  UINT64_C(0xffff888000100000)
#define OTHER_MM  UINT64_C(0xffff888000200000)
#define PID	  7
#define OTHER_PID 8
#define TASK	  UINT64_C(0xffff888000400000) /* of PID */
#define INIT_MM	  UINT64_C(0xffff888000300000)
#define INIT	  UINT64_C(0x555555000000)
/* Where they map files. */
#define APP  UINT64_C(0x401000)
#define LIB  UINT64_C(0x7f0000001000)
#define LIB2 UINT64_C(0x7f1000001000)
/* Of each file one page is mapped, with one function at its begin. */
#define OFFSET 0x1000
#define SIZE   0x1000

enum file { FIRST, SECOND, LIBC, TOOL, N_FILES };
static const struct {
	const char *path, *name, *function;
} files[N_FILES] = {
	[FIRST] = { "/bin/first", "first", "in_first" },
	[SECOND] = { "/bin/second", "second", "in_second" },
	[LIBC] = { "/lib/libc.so.6", "libc.so.6", "malloc" },
	[TOOL] = { "/opt/tool", "tool", NULL },
};

struct fixture {
	char *folder, *path;
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_calls_directory *directory;
	struct vms_calls_names *names;
	unsigned late_from; /* reads of code, after which something has gone that nobody told of */
};

static bool is_late(uint64_t mm G_GNUC_UNUSED, void *data)
{
	const struct fixture *fixture = data;
	return fake_guest_code_reads(fixture->guest) >= fixture->late_from;
}

static void begin(struct fixture *fixture, const char *sysroot)
{
	vms_calls_names_free(fixture->names);
	fixture->names =
		vms_calls_names_new(fixture->directory, fixture->guest, sysroot, is_late, fixture);
}

/* A symbol file of the user's, placed at `base`, with a function of 0x100 bytes at `va`. */
static void add_symbol_file(struct fixture *fixture, const char *name, uint64_t base,
			    const char *function, uint64_t va)
{
	g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
	g_autoptr(GError) error = NULL;
	elf_encoder_write(path, function, va - base, 0x100);
	struct vms_symbol_file *file = vms_symbol_file_open(path, &error);
	g_assert_no_error(error);
	g_assert_true(vms_guest_add_symbols(fixture->guest, file, &base, &error));
	g_assert_cmpint(g_unlink(path), ==, 0);
}

/* ---- what happens in the guest ------------------------------------------ */

static void map(struct fixture *fixture, uint64_t mm, uint64_t start, enum file file)
{
	const struct vms_mapping mapping = { start, start + SIZE, 0xf00 + file, OFFSET,
					     files[file].path };
	fake_guest_map(fixture->guest, mm, &mapping);
}

/* The program, and nothing else, is what `mm` maps now. */
static void replace(struct fixture *fixture, uint64_t mm, enum file file)
{
	fake_guest_unmap(fixture->guest, mm);
	map(fixture, mm, APP, file);
}

static void tell_space(struct fixture *fixture, uint64_t mm, uint32_t pid, uint64_t time_ns)
{
	const struct vms_calls_space space = {
		.time_ns = time_ns, .mm = mm, .task = TASK, .pid = pid
	};
	vms_calls_names_enter_space(fixture->names, STREAM, &space);
}

static void tell_end(struct fixture *fixture, uint64_t mm, uint32_t pid, uint64_t time_ns,
		     bool gone)
{
	const struct vms_calls_space space = { .time_ns = time_ns, .mm = mm, .pid = pid };
	vms_calls_names_end_space(fixture->names, &space, gone);
}

/*
 * Gives all files their places in the trace. A call that has no name stays at its address: the
 * first file that is mapped there would name it.
 */
static void map_all(struct fixture *fixture)
{
	for (unsigned i = 0; i < N_FILES; i++)
		map(fixture, INIT_MM, INIT + i * 0x10000, i);
	tell_space(fixture, INIT_MM, 1, 1);
}

static void set_up(struct fixture *fixture, gconstpointer data)
{
	const enum vms_guest_kind *kind = data;
	g_autoptr(GError) error = NULL;
	fixture->folder = g_dir_make_tmp("vmscope-names-XXXXXX", NULL);
	g_assert_nonnull(fixture->folder);
	fixture->path = g_build_filename(fixture->folder, "trace", NULL);
	fixture->directory = vms_calls_directory_open(fixture->path, &error);
	g_assert_no_error(error);
	fixture->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fixture->guest = fake_guest_new(fixture->machine, *kind);
	fixture->late_from = UINT_MAX;
	for (unsigned i = 0; i < N_FILES; i++)
		if (files[i].function)
			add_symbol_file(fixture, files[i].name, 0, files[i].function, OFFSET);
	begin(fixture, NULL);
	map_all(fixture);
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	vms_calls_names_free(fixture->names);
	vms_calls_directory_discard(fixture->directory);
	vms_guest_unref(fixture->guest);
	vms_machine_unref(fixture->machine);
	g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
	g_free(fixture->folder);
	g_free(fixture->path);
}

/* ---- what is written ---------------------------------------------------- */

static void call(struct fixture *fixture, uint64_t va)
{
	const uint64_t record[2] = { GUINT64_TO_LE(1000),
				     GUINT64_TO_LE(UFTRACE_ENTRY | 5 << 3 | va << 16) };
	g_autoptr(GError) error = NULL;
	g_assert_true(vms_calls_directory_append(fixture->directory, STREAM, record, sizeof(record),
						 &error));
	g_assert_no_error(error);
}

static void call_all(struct fixture *fixture, const uint64_t *addresses, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		call(fixture, addresses[i]);
}

/* All calls so far are named like this. */
static void assert_names(struct fixture *fixture, const char *const *names, unsigned n)
{
	g_autoptr(GError) error = NULL;
	g_assert_true(vms_calls_directory_update(fixture->directory, &error));
	g_assert_no_error(error);
	g_assert_cmpuint(vms_calls_directory_written(fixture->directory).records, ==, n);
	for (unsigned i = 0; i < n; i++)
		uftrace_assert_name(fixture->path, "100.dat", i, names[i]);
}
#define CALL(...)                                                                                  \
	call_all(fixture, (const uint64_t[]) { __VA_ARGS__ },                                      \
		 sizeof((const uint64_t[]) { __VA_ARGS__ }) / sizeof(uint64_t))
#define ASSERT_NAMES(...)                                                                          \
	assert_names(fixture, (const char *const[]) { __VA_ARGS__ },                               \
		     sizeof((const char *const[]) { __VA_ARGS__ }) / sizeof(char *))

/* ---- processes ---------------------------------------------------------- */

static void test_processes(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	map(fixture, MM, APP, FIRST);
	map(fixture, MM, LIB, LIBC);
	map(fixture, MM, LIB2, TOOL);
	map(fixture, OTHER_MM, APP, SECOND);
	map(fixture, OTHER_MM, LIB2, LIBC);
	/* Another file of that name. */
	const struct vms_mapping tool = { LIB, LIB + SIZE, 1, OFFSET, files[TOOL].path };
	fake_guest_map(fixture->guest, OTHER_MM, &tool);
	tell_space(fixture, MM, PID, 10);
	CALL(APP, LIB, LIB2);
	tell_space(fixture, OTHER_MM, OTHER_PID, 11);
	CALL(APP, LIB2, LIB);
	tell_space(fixture, MM, PID, 12);
	CALL(APP);
	tell_space(fixture, 0, 0, 13);
	CALL(LIB);
	ASSERT_NAMES("in_first", "malloc", "tool+0x1000", "in_second", "malloc", "tool~2+0x1000",
		     "in_first", NULL);
}

/* Code that was made there is another's in another process. */
static void test_anonymous(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fake_guest_map(fixture->guest, MM,
		       &(struct vms_mapping) { APP, APP + SIZE, 0, 0, "[anon]" });
	fake_guest_map(fixture->guest, MM,
		       &(struct vms_mapping) { LIB, LIB + SIZE, 0, 0, "[vdso]" });
	tell_space(fixture, MM, PID, 10);
	CALL(APP, LIB + 0x10);
	ASSERT_NAMES(NULL, "_vdso_+0x10");
}

/* The file is this program itself. */
static void test_sysroot(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	g_autofree char *root = g_path_get_dirname(self);
	g_autoptr(vms_symbol_file) file = vms_symbol_file_open(self, NULL);
	g_autoptr(vms_symbol_table) table = vms_symbol_file_offsets(file);
	struct vms_symbol symbol;
	g_assert_true(vms_symbol_table_lookup(table, "main", &symbol));
	begin(fixture, root);
	const struct vms_mapping mapping = { LIB, LIB + symbol.va + 1, 1, 0, self + strlen(root) };
	fake_guest_map(fixture->guest, MM, &mapping);
	map(fixture, MM, LIB2, TOOL); /* is not there */
	tell_space(fixture, MM, PID, 10);
	CALL(LIB + symbol.va, LIB2);
	ASSERT_NAMES("main", "tool+0x1000");
}

struct late_file {
	struct vms_file_source whole;
	bool is_there; /* the begin always is */
};

static bool read_late(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct late_file *file = data;
	return (file->is_there || offset + size <= VMS_FILE_BLOCK) &&
	       vms_file_source_read(&file->whole, offset, buf, size);
}

/* The functions of a file, this program itself, that come into memory after it was first seen. */
static void test_late_functions(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	g_autoptr(vms_symbol_file) file = vms_symbol_file_open(self, NULL);
	g_autoptr(vms_symbol_table) table = vms_symbol_file_offsets(file);
	struct vms_symbol symbol;
	struct late_file late = { 0 };
	g_assert_true(vms_symbol_table_lookup(table, "main", &symbol));
	g_assert_true(vms_file_source_of_fd(g_open(self, O_RDONLY | O_CLOEXEC), &late.whole));
	const struct vms_file_source source = { late.whole.size, read_late, NULL, &late };
	g_autoptr(vms_binary) binary = vms_binary_new(self, &source);
	const struct vms_mapping mapping = {
		.start = LIB,
		.end = LIB + symbol.va + 1,
		.file = 1,
		.name = self,
		.binary = binary,
	};
	fake_guest_map(fixture->guest, MM, &mapping);
	tell_space(fixture, MM, PID, 10);
	g_assert_false(vms_symbol_table_lookup(vms_binary_functions(binary), "main", &symbol));
	late.is_there = true;
	g_usleep(1100 * 1000);
	vms_calls_names_refresh(fixture->names);
	CALL(LIB + symbol.va);
	ASSERT_NAMES("main");
	vms_file_source_clear(&late.whole);
}

/* Only what has changed, as far as its stamp tells, is read again. */
static void test_refresh(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, FIRST);
	replace(fixture, OTHER_MM, FIRST);
	tell_space(fixture, MM, PID, 10);
	tell_space(fixture, OTHER_MM, OTHER_PID, 10);
	replace(fixture, MM, SECOND);
	replace(fixture, OTHER_MM, SECOND);
	fake_guest_set_stamp(fixture->guest, OTHER_MM, 2);
	vms_calls_names_refresh(fixture->names);
	CALL(APP);
	tell_space(fixture, MM, PID, 11);
	CALL(APP);
	fake_guest_set_stamp(fixture->guest, MM, 2);
	vms_calls_names_refresh(fixture->names);
	CALL(APP);
	replace(fixture, MM, FIRST);
	vms_calls_names_refresh(fixture->names);
	CALL(APP);
	ASSERT_NAMES("in_second", "in_first", "in_second", "in_second");
}

/* What was mapped after the space was read is looked up when it is called. */
static void test_learn(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	tell_space(fixture, OTHER_MM, OTHER_PID, 10);
	tell_space(fixture, MM, PID, 10);
	map(fixture, MM, APP, FIRST);
	map(fixture, OTHER_MM, APP, SECOND);
	CALL(APP);
	tell_space(fixture, OTHER_MM, OTHER_PID, 11);
	CALL(APP);
	map(fixture, OTHER_MM, LIB, LIBC);
	map(fixture, OTHER_MM, LIB2, LIBC);
	fixture->late_from = 0;
	CALL(LIB);
	fixture->late_from = UINT_MAX;
	tell_end(fixture, OTHER_MM, OTHER_PID, 20, true);
	CALL(LIB2);
	ASSERT_NAMES("in_first", "in_second", NULL, NULL);
}

/* ---- their end ---------------------------------------------------------- */

/* What was mapped up to the end is read then, and known later. */
static void test_end(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	map(fixture, MM, APP, FIRST);
	tell_space(fixture, MM, PID, 10);
	map(fixture, MM, LIB, LIBC);
	tell_end(fixture, MM, PID, 20, false);
	fake_guest_unmap(fixture->guest, MM);
	CALL(APP, LIB);
	/* Told of at its end first. */
	map(fixture, OTHER_MM, APP, SECOND);
	tell_end(fixture, OTHER_MM, OTHER_PID, 20, false);
	fake_guest_unmap(fixture->guest, OTHER_MM);
	tell_space(fixture, OTHER_MM, OTHER_PID, 15);
	CALL(APP);
	ASSERT_NAMES("in_first", "malloc", "in_second");
}

/* Another has taken the place of one that is gone. */
static void test_gone(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, FIRST);
	tell_space(fixture, MM, PID, 10);
	replace(fixture, MM, SECOND);
	map(fixture, MM, LIB, LIBC);
	fake_guest_set_stamp(fixture->guest, MM, 2);
	tell_end(fixture, MM, PID, 20, true);
	vms_calls_names_refresh(fixture->names);
	tell_space(fixture, MM, PID, 20);
	CALL(APP, LIB);
	tell_space(fixture, MM, PID, 21);
	CALL(APP, LIB);
	ASSERT_NAMES("in_first", NULL, "in_second", "malloc");
}

/* The new process has been told of by a vCPU that is behind. */
static void test_gone_by_pid(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, FIRST);
	tell_space(fixture, MM, PID, 10);
	tell_end(fixture, MM, PID, 20, true);
	replace(fixture, MM, SECOND);
	tell_space(fixture, MM, OTHER_PID, 15);
	CALL(APP);
	ASSERT_NAMES("in_second");
}

/* Gone before it was known: who tells of it late must not get what is there now. */
static void test_gone_unread(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, SECOND);
	tell_end(fixture, MM, PID, 20, true);
	tell_space(fixture, MM, PID, 10);
	CALL(APP);
	tell_space(fixture, MM, OTHER_PID, 30);
	CALL(APP);
	/* Nor what was there before it. */
	tell_end(fixture, MM, OTHER_PID, 40, false);
	tell_end(fixture, MM, PID, 50, true);
	tell_space(fixture, MM, PID, 45);
	CALL(APP);
	ASSERT_NAMES(NULL, "in_second", NULL);
}

/* Told of when another is known to be there: neither that one's names, nor those of the next. */
static void test_gone_before(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, FIRST);
	tell_space(fixture, MM, PID, 10);
	tell_end(fixture, MM, PID, 20, true);
	replace(fixture, MM, SECOND);
	tell_space(fixture, MM, OTHER_PID, 21);
	tell_space(fixture, MM, PID, 15);
	CALL(APP);
	tell_end(fixture, MM, OTHER_PID, 30, true);
	tell_space(fixture, MM, PID, 15);
	CALL(APP);
	tell_space(fixture, MM, OTHER_PID, 25);
	CALL(APP);
	tell_space(fixture, MM, PID, 31);
	CALL(APP);
	ASSERT_NAMES(NULL, NULL, "in_second", "in_second");
}

/* All may be gone: what streams know is kept, nothing is read of old ones. */
static void test_all_gone(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, FIRST);
	replace(fixture, OTHER_MM, FIRST);
	tell_space(fixture, OTHER_MM, OTHER_PID, 10);
	tell_end(fixture, OTHER_MM, OTHER_PID, 20, false);
	tell_space(fixture, MM, PID, 10);
	tell_end(fixture, 0, 0, 0, true);
	replace(fixture, MM, SECOND);
	replace(fixture, OTHER_MM, SECOND);
	map(fixture, MM, LIB, LIBC);
	fake_guest_set_stamp(fixture->guest, MM, 2);
	vms_calls_names_refresh(fixture->names);
	CALL(APP, LIB);
	tell_space(fixture, MM, PID, 10);
	CALL(APP);
	/* Of one that has ended before, all is known: a vCPU that is behind tells of it. */
	tell_space(fixture, OTHER_MM, OTHER_PID, 10);
	CALL(APP);
	ASSERT_NAMES("in_first", NULL, "in_second", "in_first");
}

/* Others are gone: what a process that goes on maps later is found. Nobody tells of it again. */
static void test_others_gone(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, FIRST);
	fake_guest_set_task(fixture->guest, TASK, PID, MM);
	tell_space(fixture, MM, PID, 10);
	tell_end(fixture, 0, 0, 0, true);
	map(fixture, MM, LIB, LIBC);
	CALL(APP, LIB);
	replace(fixture, MM, SECOND);
	fake_guest_set_stamp(fixture->guest, MM, 2);
	vms_calls_names_refresh(fixture->names);
	CALL(APP);
	ASSERT_NAMES("in_first", "malloc", "in_second");
}

/* What was read while something went is not believed; what was read before is. */
static void test_late(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	replace(fixture, MM, FIRST);
	replace(fixture, OTHER_MM, SECOND);
	fixture->late_from = fake_guest_code_reads(fixture->guest) + 1;
	tell_space(fixture, MM, PID, 10);
	CALL(APP);
	tell_end(fixture, OTHER_MM, OTHER_PID, 20, false);
	tell_space(fixture, OTHER_MM, OTHER_PID, 15);
	CALL(APP);
	fixture->late_from = UINT_MAX;
	vms_calls_names_refresh(fixture->names);
	tell_space(fixture, MM, PID, 20);
	CALL(APP);

	replace(fixture, MM, SECOND);
	fake_guest_set_stamp(fixture->guest, MM, 2);
	fixture->late_from = 0;
	vms_calls_names_refresh(fixture->names);
	CALL(APP);
	fixture->late_from = UINT_MAX;
	vms_calls_names_refresh(fixture->names);
	CALL(APP);
	ASSERT_NAMES(NULL, NULL, "in_first", "in_first", "in_second");
}

/* What was not believed is read again, also what nobody looks for again. */
static void test_retry(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->late_from = 0;
	map(fixture, OTHER_MM, APP, SECOND);
	tell_space(fixture, OTHER_MM, OTHER_PID, 10);
	CALL(APP);
	fixture->late_from = UINT_MAX;
	vms_calls_names_retry(fixture->names);
	CALL(APP);

	tell_space(fixture, MM, PID, 10);
	map(fixture, MM, LIB, LIBC);
	fixture->late_from = 0;
	CALL(LIB);
	vms_calls_names_retry(fixture->names);
	CALL(LIB);
	fixture->late_from = UINT_MAX;
	vms_calls_names_retry(fixture->names);
	CALL(LIB);
	ASSERT_NAMES(NULL, "in_second", NULL, NULL, "malloc");
}

/* A guest may tell of spaces that it does not have: what is known stays. */
static void test_many_spaces(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	map(fixture, MM, APP, FIRST);
	map(fixture, OTHER_MM, APP, SECOND);
	tell_space(fixture, MM, PID, 10);
	for (unsigned i = 1; i <= 1 << 16; i++)
		tell_space(fixture, i, i, 10);
	tell_space(fixture, OTHER_MM, OTHER_PID, 10);
	CALL(APP);
	tell_space(fixture, MM, PID, 10);
	CALL(APP);
	ASSERT_NAMES(NULL, "in_first");
}

/* ---- the kernel --------------------------------------------------------- */

static void add_module(struct fixture *fixture, const char *name, uint64_t text, uint64_t size,
		       const char *function)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new(name);
	vms_symbol_table_add(table, function, text + 0x10, 0x100, 't');
	vms_symbol_table_finish(table, text + 0x110);
	fake_guest_add_module(fixture->guest, name, text, size, table);
}

static void test_kernel(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("vmlinux");
	vms_symbol_table_add(table, "do_syscall", KERNEL + 0x200, 0x100, 'T');
	vms_symbol_table_finish(table, KERNEL + 0x300);
	fake_guest_set_kernel(fixture->guest, table, KERNEL, KERNEL + 0x1000000);
	add_module(fixture, "ext4", MODULE, 0x1000, "ext4_read");
	add_symbol_file(fixture, "blob", BLOB, "blob_run", BLOB + 0x20);
	add_symbol_file(fixture, "bios", BIOS, "reset", BIOS + 0x100);
	begin(fixture, NULL);
	CALL(KERNEL + 0x200, MODULE + 0x10, BLOB + 0x20, BLOB, BIOS + 0x100);
	CALL(MODULE + 0x5010); /* before it is known */
	add_module(fixture, "late", MODULE + 0x5000, 0x1000, "late_read");
	add_module(fixture, "init", MODULE, 0, "init"); /* has no code any more */
	vms_calls_names_update_kernel(fixture->names);
	CALL(MODULE + 0x5010, MODULE + 0x10);
	/* They hold in processes, too. */
	map(fixture, MM, APP, FIRST);
	tell_space(fixture, MM, PID, 10);
	CALL(APP, KERNEL + 0x200);
	ASSERT_NAMES("do_syscall", "ext4_read", "blob_run", NULL, NULL, "late_read", "late_read",
		     "ext4_read", "in_first", "do_syscall");
	g_autofree char *info = uftrace_read_file(fixture->path, "info", NULL);
	g_assert_nonnull(strstr(info + 40, "osinfo:kernel=Linux 1.2.3\n")); /* behind its header */
	g_autofree char *no_code = g_build_filename(fixture->path, "init.sym", NULL);
	g_assert_false(g_file_test(no_code, G_FILE_TEST_EXISTS));
}

/* Before there are processes user addresses are what symbol files say; then they are theirs. */
static void test_recognised(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add_symbol_file(fixture, "bios", BIOS, "reset", BIOS + 0x100);
	add_symbol_file(fixture, "blob", BLOB, "blob_run", BLOB);
	vms_calls_names_update_kernel(fixture->names);
	map(fixture, MM, APP, FIRST);
	map(fixture, MM, BIOS, SECOND);
	tell_space(fixture, MM, PID, 10);
	CALL(BIOS + 0x100, BLOB, APP);
	fake_guest_recognise(fixture->guest);
	vms_calls_names_update_kernel(fixture->names);
	CALL(BIOS + 0x100, BLOB);
	tell_space(fixture, MM, PID, 10);
	CALL(BIOS, APP);
	ASSERT_NAMES("reset", "blob_run", NULL, NULL, "blob_run", "in_second", "in_first");
}

#define ADD(name, kind)                                                                            \
	g_test_add("/calls_names/" #name, struct fixture, kind, set_up, test_##name, tear_down)

int main(int argc, char **argv)
{
	static const enum vms_guest_kind none = VMS_GUEST_NONE, linux_guest = VMS_GUEST_LINUX;
	g_test_init(&argc, &argv, NULL);
	ADD(processes, &linux_guest);
	ADD(anonymous, &linux_guest);
	ADD(sysroot, &linux_guest);
	ADD(late_functions, &linux_guest);
	ADD(refresh, &linux_guest);
	ADD(learn, &linux_guest);
	ADD(end, &linux_guest);
	ADD(gone, &linux_guest);
	ADD(gone_by_pid, &linux_guest);
	ADD(gone_unread, &linux_guest);
	ADD(gone_before, &linux_guest);
	ADD(all_gone, &linux_guest);
	ADD(others_gone, &linux_guest);
	ADD(late, &linux_guest);
	ADD(retry, &linux_guest);
	ADD(many_spaces, &linux_guest);
	ADD(kernel, &linux_guest);
	ADD(recognised, &none);
	return g_test_run();
}
