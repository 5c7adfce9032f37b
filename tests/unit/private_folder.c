/* SPDX-License-Identifier: MIT */
#include "base/private_folder.h"

#include <glib/gstdio.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* ---- as another user, whose folders the test can choose -------------------- */

#define SOMEBODY 65533

/* Runs a check in a child that has no rights but those of that user; TMPDIR is the test's folder.
 */
static void run_as_somebody(struct fixture *fixture, void (*check)(const struct fixture *fixture))
{
	if (geteuid() != 0) {
		g_test_skip("only root can become another user");
		return;
	}
	g_assert_cmpint(chmod(fixture->top, 01777), ==, 0);
	pid_t child = fork();
	if (child == 0) {
		g_unsetenv("XDG_RUNTIME_DIR");
		if (setgroups(0, NULL) == 0 && setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 &&
		    setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0)
			check(fixture);
		_exit(0);
	}
	int status;
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
}

static void check_temporary(const struct fixture *fixture G_GNUC_UNUSED)
{
	struct stat status;
	g_autofree char *prefix = g_strdup_printf("%s/vmscope-%u-", g_get_tmp_dir(), SOMEBODY);
	g_autofree char *first = vms_private_folder_temporary(NULL);
	g_autofree char *second = vms_private_folder_temporary(NULL);
	g_assert_true(g_str_has_prefix(first, prefix));
	g_assert_cmpstr(first, ==, second); /* found again */
	g_assert_cmpint(lstat(first, &status), ==, 0);
	g_assert_cmpuint(status.st_mode, ==, S_IFDIR | 0700);
	g_assert_cmpuint(status.st_uid, ==, SOMEBODY);
	g_rmdir(first);
}

/* Whatever names others have taken, there is a folder for this user. */
static void test_taken_names(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const names[] = { "vmscope-65533", "vmscope-65533-",
					     "vmscope-65533-abcdef" };
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *taken = g_build_filename(g_get_tmp_dir(), names[i], NULL);
		g_assert_cmpint(g_mkdir(taken, 0700), ==, 0);
	}
	run_as_somebody(fixture, check_temporary);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *taken = g_build_filename(g_get_tmp_dir(), names[i], NULL);
		g_assert_cmpint(g_rmdir(taken), ==, 0);
	}
}

static void check_runtime(const struct fixture *fixture)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *none = vms_private_folder_runtime(&error);
	g_assert_null(none); /* logind has made no /run/user/65533 */
	g_assert_no_error(error);
	g_setenv("XDG_RUNTIME_DIR", fixture->top, TRUE);
	g_autofree char *expected = g_build_filename(fixture->top, "vmscope", NULL);
	g_autofree char *path = vms_private_folder_runtime(&error);
	g_assert_no_error(error);
	g_assert_cmpstr(path, ==, expected);
	g_rmdir(path);
}

static void test_runtime(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	run_as_somebody(fixture, check_runtime);
}

/* A folder of a user who has called sudo -E is not root's place. */
static void test_runtime_of_root(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	if (geteuid() != 0) {
		g_test_skip("only root has it");
		return;
	}
	g_setenv("XDG_RUNTIME_DIR", fixture->top, TRUE);
	g_autofree char *path = vms_private_folder_runtime(NULL);
	g_unsetenv("XDG_RUNTIME_DIR");
	g_assert_cmpstr(path, ==, "/run/vmscope");
}

int main(int argc, char **argv)
{
	char temporary[] = "/tmp/vmscope-private-XXXXXX";
	g_assert_nonnull(mkdtemp(temporary));
	g_assert_cmpint(chmod(temporary, 01777), ==, 0);
	g_setenv("TMPDIR", temporary, TRUE); /* GLib reads it once */
	g_test_init(&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
	g_test_add("/private_folder/" name, struct fixture, NULL, set_up, function, tear_down)
	ADD("made", test_made);
	ADD("open-to-others", test_open_to_others);
	ADD("link", test_link);
	ADD("of-another-user", test_of_another_user);
	ADD("file", test_file);
	ADD("taken-names", test_taken_names);
	ADD("runtime", test_runtime);
	ADD("runtime-of-root", test_runtime_of_root);
	const int status = g_test_run();
	g_rmdir(temporary);
	return status;
}
