/* SPDX-License-Identifier: MIT */
#include "base/private_folder.h"

#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>

struct fixture {
	char *top, *path;
};

static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->top = g_dir_make_tmp("vmscope-private-XXXXXX", NULL);
	g_assert_nonnull(fixture->top);
	fixture->path = g_build_filename(fixture->top, "folder", NULL);
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_remove(fixture->path);
	g_rmdir(fixture->top);
	g_free(fixture->path);
	g_free(fixture->top);
}

static void assert_refused(const struct fixture *fixture)
{
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_private_folder_make(fixture->path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_PERMISSION);
}

static void test_made(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct stat status;
	g_autoptr(GError) error = NULL;
	mode_t mask = umask(0);
	g_assert_true(vms_private_folder_make(fixture->path, &error));
	umask(mask);
	g_assert_no_error(error);
	g_assert_cmpint(lstat(fixture->path, &status), ==, 0);
	g_assert_cmpuint(status.st_mode, ==, S_IFDIR | 0700);
	g_assert_true(vms_private_folder_make(fixture->path, &error)); /* it is there */
}

/* Whoever can enter it can open what is in it; root is told, too. */
static void test_open_to_others(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const mode_t modes[] = { 0701, 0710, 0720, 0755, 0777 };
	g_assert_cmpint(g_mkdir(fixture->path, 0700), ==, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(modes); i++) {
		g_assert_cmpint(chmod(fixture->path, modes[i]), ==, 0);
		assert_refused(fixture);
	}
}

static void test_link(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *target = g_build_filename(fixture->top, "target", NULL);
	g_assert_cmpint(g_mkdir(target, 0700), ==, 0);
	g_assert_cmpint(symlink(target, fixture->path), ==, 0);
	assert_refused(fixture);
	g_rmdir(target);
}

static void test_of_another_user(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	if (geteuid() != 0) {
		g_test_skip("only root can give a folder away");
		return;
	}
	g_assert_cmpint(g_mkdir(fixture->path, 0700), ==, 0);
	g_assert_cmpint(chown(fixture->path, 1, 1), ==, 0);
	assert_refused(fixture);
}

static void test_file(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_true(g_file_set_contents(fixture->path, "", 0, NULL));
	g_assert_false(vms_private_folder_make(fixture->path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
	g_test_add("/private_folder/" name, struct fixture, NULL, set_up, function, tear_down)
	ADD("made", test_made);
	ADD("open-to-others", test_open_to_others);
	ADD("link", test_link);
	ADD("of-another-user", test_of_another_user);
	ADD("file", test_file);
	return g_test_run();
}
