/* SPDX-License-Identifier: MIT */
/*
 * Debug files with a debuginfod-find of our own: a script that answers, lies, fails, hangs. What
 * real files and servers give, tests/integration/test_debug_files.py shows.
 */
#include "symbol/debug_files.h"
#include "base/clock.h"
#include "symbol/build_id.h"
#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

struct fixture {
	char *folder, *path_before, *build_id;
	struct vms_debug_files *files;
};

static void set_up(struct fixture *fixture, gconstpointer script)
{
	const char *const folders[] = { g_get_tmp_dir(), NULL };
	const struct vms_debug_files_options options = {
		.size = sizeof(options),
		.folders = folders,
		.asks_servers = true,
	};
	fixture->folder = g_dir_make_tmp("vmscope-debug-files-XXXXXX", NULL);
	g_autofree char *program = g_build_filename(fixture->folder, "debuginfod-find", NULL);
	g_autofree char *text = g_strdup_printf("#!/bin/sh\n%s\n", (const char *)script);
	g_assert_true(g_file_set_contents_full(program, text, -1, 0, 0700, NULL));
	fixture->path_before = g_strdup(g_getenv("PATH"));
	g_autofree char *path =
		g_strjoin(":", fixture->folder, fixture->path_before ?: "/bin", NULL);
	g_setenv("PATH", path, TRUE);
	g_setenv("DEBUGINFOD_URLS", "http://nowhere.invalid", TRUE);
	struct vms_file_source self;
	char build_id[2 * VMS_BUILD_ID_MAX + 1];
	g_assert_true(vms_file_source_of_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &self));
	g_assert_true(vms_build_id_find(&self, build_id));
	fixture->build_id = g_strdup(build_id);
	vms_file_source_clear(&self);
	fixture->files = vms_debug_files_new(&options, NULL);
	g_assert_nonnull(fixture->files);
}

static void tear_down(struct fixture *fixture, gconstpointer script G_GNUC_UNUSED)
{
	g_autofree char *program = g_build_filename(fixture->folder, "debuginfod-find", NULL);
	vms_debug_files_unref(fixture->files);
	g_setenv("PATH", fixture->path_before, TRUE);
	g_remove(program);
	g_rmdir(fixture->folder);
	g_free(fixture->folder);
	g_free(fixture->path_before);
	g_free(fixture->build_id);
}

static enum vms_debug_answer find_symbols(struct fixture *fixture,
					  struct vms_separate_symbols *symbols)
{
	return vms_debug_files_find_symbols(fixture->files, "/bin/program", fixture->build_id, NULL,
					    symbols);
}

static void test_answer(struct fixture *fixture, gconstpointer script G_GNUC_UNUSED)
{
	struct vms_separate_symbols symbols;
	g_assert_cmpint(find_symbols(fixture, &symbols), ==, VMS_DEBUG_PENDING);
	vms_debug_files_wait(fixture->files, 60 * SECOND_NS);
	g_assert_false(vms_debug_files_is_pending(fixture->files, fixture->build_id));
	g_assert_cmpint(find_symbols(fixture, &symbols), ==, VMS_DEBUG_FOUND);
	g_assert_cmpstr(symbols.elf.build_id, ==, fixture->build_id);
	vms_separate_symbols_clear(&symbols);
}

static void test_nothing(struct fixture *fixture, gconstpointer script G_GNUC_UNUSED)
{
	struct vms_separate_symbols symbols;
	g_assert_cmpint(find_symbols(fixture, &symbols), ==, VMS_DEBUG_PENDING);
	vms_debug_files_wait(fixture->files, 60 * SECOND_NS);
	g_assert_cmpint(find_symbols(fixture, &symbols), ==, VMS_DEBUG_MISSING);
}

/* What is late is given up, and nothing else is asked. */
static void test_hangs(struct fixture *fixture, gconstpointer script G_GNUC_UNUSED)
{
	struct vms_separate_symbols symbols;
	g_assert_cmpint(find_symbols(fixture, &symbols), ==, VMS_DEBUG_PENDING);
	g_assert_true(vms_debug_files_is_pending(fixture->files, fixture->build_id));
	vms_debug_files_wait(fixture->files, SECOND_NS / 100);
	g_assert_cmpint(find_symbols(fixture, &symbols), ==, VMS_DEBUG_MISSING);
	g_assert_cmpint(vms_debug_files_find_symbols(fixture->files, "/bin/other", "0123456789",
						     NULL, &symbols),
			==, VMS_DEBUG_MISSING);
}

static void test_many(struct fixture *fixture, gconstpointer script G_GNUC_UNUSED)
{
	struct vms_separate_symbols symbols;
	unsigned pending = 0;
	for (unsigned i = 0; i < 2000; i++) {
		g_autofree char *build_id = g_strdup_printf("%08x", i);
		pending += vms_debug_files_find_symbols(fixture->files, "/bin/program", build_id,
							NULL, &symbols) == VMS_DEBUG_PENDING;
	}
	g_assert_cmpuint(pending, >, 0);
	g_assert_cmpuint(pending, <=, 512);
}

/* A copy must be of the same size: offsets in it are used as those of the guest's file. */
static void test_copy(struct fixture *fixture, gconstpointer script G_GNUC_UNUSED)
{
	const struct vms_debug_files_options options = {
		.size = sizeof(options),
		.sysroot = "/",
	};
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	g_autoptr(vms_debug_files) files = vms_debug_files_new(&options, NULL);
	struct vms_file_source copy;
	GStatBuf status;
	g_assert_cmpint(g_stat(self, &status), ==, 0);
	const uint64_t size = (uint64_t)status.st_size;
	g_assert_false(
		vms_debug_files_find_copy(files, self, fixture->build_id, size - 1, NULL, &copy));
	g_assert_false(vms_debug_files_find_copy(files, self, "0123", size, NULL, &copy));
	g_assert_false(vms_debug_files_find_copy(files, "/", fixture->build_id, size, NULL, &copy));
	g_assert_true(vms_debug_files_find_copy(files, self, fixture->build_id, size, NULL, &copy));
	vms_file_source_clear(&copy);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	g_autofree char *answer = g_strconcat("echo ", self, NULL);
#define ADD(name, script, function)                                                                \
	g_test_add("/debug_files/" name, struct fixture, script, set_up, function, tear_down)
	ADD("answer", answer, test_answer);
	ADD("missing", "exit 1", test_nothing);
	ADD("another-file", "echo /bin/sh", test_nothing);
	ADD("no-file", "echo /nowhere/at/all", test_nothing);
	ADD("no-path", "echo hello", test_nothing);
	ADD("endless-path", "exec yes /x/", test_nothing);
	ADD("hangs", "exec sleep 1000", test_hangs);
	ADD("closes-its-output", "exec >&- sleep 1000", test_hangs);
	ADD("many", "exec sleep 1000", test_many);
	ADD("copy", "exit 1", test_copy);
	return g_test_run();
}
