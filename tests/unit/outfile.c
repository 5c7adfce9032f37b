/* SPDX-License-Identifier: MIT */
#include "base/outfile.h"
#include "base/owner.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

struct fixture {
	char *folder, *path;
};

/* What was brought to the disk: of the file before and after it has its name, and of its folder. */
static struct {
	const char *path; /* of the file; NULL: nothing is counted */
	unsigned unnamed, named, folder;
	bool fails;
} synced;

/* Counts what follows, until `path` is NULL. */
static void count_syncs(const char *path, bool fails)
{
	memset(&synced, 0, sizeof(synced));
	synced.path = path;
	synced.fails = fails;
}

/* Stands in for that of the C library, for the library's code, too. */
int fsync(int fd)
{
	struct stat of_fd, of_path;
	if (synced.path && fstat(fd, &of_fd) == 0) {
		if (S_ISDIR(of_fd.st_mode))
			synced.folder++;
		else if (stat(synced.path, &of_path) == 0 && of_path.st_ino == of_fd.st_ino)
			synced.named++;
		else
			synced.unnamed++;
		if (synced.fails) {
			errno = EIO;
			return -1;
		}
	}
	return (int)syscall(SYS_fsync, fd);
}

static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->folder = g_dir_make_tmp("vmscope-outfile-XXXXXX", NULL);
	g_assert_nonnull(fixture->folder);
	fixture->path = g_build_filename(fixture->folder, "report.txt", NULL);
}

static unsigned count_files(const struct fixture *fixture)
{
	g_autoptr(GDir) dir = g_dir_open(fixture->folder, 0, NULL);
	unsigned n = 0;
	while (g_dir_read_name(dir))
		n++;
	return n;
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GDir) dir = g_dir_open(fixture->folder, 0, NULL);
	for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
		g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
		g_unlink(path);
	}
	g_rmdir(fixture->folder);
	g_free(fixture->folder);
	g_free(fixture->path);
}

static void assert_content(const char *path, const char *expected)
{
	g_autofree char *content = NULL;
	g_assert_true(g_file_get_contents(path, &content, NULL, NULL));
	g_assert_cmpstr(content, ==, expected);
}

static void write_text(const char *path, const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_outfile) file = vms_outfile_open(path, &error);
	g_assert_no_error(error);
	g_assert_true(vms_outfile_write(file, text, strlen(text), &error));
	g_assert_true(vms_outfile_commit(file, &error));
	g_assert_no_error(error);
}

static void test_new(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct stat stat_buf;
	mode_t mask = umask(0);
	write_text(fixture->path, "new");
	umask(mask);
	assert_content(fixture->path, "new");
	g_assert_cmpint(g_stat(fixture->path, &stat_buf), ==, 0);
	g_assert_cmpuint(stat_buf.st_mode & 0777, ==, 0600);
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

/*
 * After a crash of the host a file has all of its content, or not its name: the content is brought
 * to the disk before it is named, and the name after that.
 */
static void test_disk(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	for (int overwrite = 0; overwrite < 2; overwrite++) {
		count_syncs(fixture->path, false);
		write_text(fixture->path, overwrite ? "new" : "old");
		synced.path = NULL;
		g_assert_cmpuint(synced.unnamed, ==, 1);
		g_assert_cmpuint(synced.named, ==, 0);
		g_assert_cmpuint(synced.folder, ==, 1);
	}
}

/* A disk that fails: what was there stays. */
static void test_failing_disk(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	write_text(fixture->path, "old");
	struct vms_outfile *file = vms_outfile_open(fixture->path, NULL);
	g_assert_true(vms_outfile_write(file, "new", 3, NULL));
	count_syncs(fixture->path, true);
	g_assert_false(vms_outfile_commit(file, &error));
	synced.path = NULL;
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	vms_outfile_close(file);
	assert_content(fixture->path, "old");
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

/* Until it is committed, what was there stays; and it stays if it never is. */
static void test_replace(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	write_text(fixture->path, "old");
	struct vms_outfile *file = vms_outfile_open(fixture->path, NULL);
	g_assert_true(vms_outfile_write(file, "half", 4, NULL));
	assert_content(fixture->path, "old");
	vms_outfile_close(file);
	assert_content(fixture->path, "old");
	g_assert_cmpuint(count_files(fixture), ==, 1);
	write_text(fixture->path, "new");
	assert_content(fixture->path, "new");
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

static void test_symlink(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *link_path = g_build_filename(fixture->folder, "link", NULL);
	write_text(fixture->path, "old");
	g_assert_cmpint(symlink("report.txt", link_path), ==, 0);
	write_text(link_path, "new");
	assert_content(fixture->path, "new");
	g_assert_true(g_file_test(link_path, G_FILE_TEST_IS_SYMLINK));
}

/* Through folders, links to folders, "..", and slashes too many: as the kernel finds it. */
static void test_path(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const paths[] = { "folder/file",	   "folder//./file",
					     "there/file",	   "there/../folder/file",
					     "absolute/file",	   "there/./link",
					     "folder/long/../file" };
	g_autofree char *folder = g_build_filename(fixture->folder, "folder", NULL);
	g_autofree char *below = g_build_filename(folder, "long", NULL);
	g_autofree char *file = g_build_filename(folder, "file", NULL);
	g_autofree char *link = g_build_filename(folder, "link", NULL);
	g_autofree char *there = g_build_filename(fixture->folder, "there", NULL);
	g_autofree char *absolute = g_build_filename(fixture->folder, "absolute", NULL);
	g_autofree char *before = g_get_current_dir();
	g_assert_cmpint(g_mkdir_with_parents(below, 0700), ==, 0);
	g_assert_cmpint(symlink("folder/", there), ==, 0);
	g_assert_cmpint(symlink(folder, absolute), ==, 0);
	g_assert_cmpint(symlink("../there/file", link), ==, 0);
	for (size_t i = 0; i < 2 * G_N_ELEMENTS(paths); i++) {
		const char *relative = paths[i / 2];
		g_autofree char *path = g_build_filename(fixture->folder, relative, NULL);
		g_assert_cmpint(chdir(i % 2 ? fixture->folder : "/"), ==, 0);
		write_text(i % 2 ? relative : path, relative);
		assert_content(file, relative);
		g_unlink(file);
	}
	g_assert_cmpint(chdir(before), ==, 0);
	g_unlink(link);
	g_rmdir(below);
	g_rmdir(folder);
}

static void test_loop(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_cmpint(symlink("report.txt", fixture->path), ==, 0);
	g_assert_null(vms_outfile_open(fixture->path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
}

/* Links of another user, at the end of the path and before, are not followed. */
static void test_foreign_link(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const uid_t other = 65534;
	g_autofree char *folder = g_build_filename(fixture->folder, "folder", NULL);
	g_autofree char *file = g_build_filename(folder, "file", NULL);
	const char *const links[] = { file, folder };
	if (geteuid() != 0) {
		g_test_skip("only root can make links of another user");
		return;
	}
	g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
	write_text(fixture->path, "precious");
	g_assert_cmpint(symlink("../report.txt", file), ==, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(links); i++) {
		g_autoptr(GError) error = NULL;
		g_autofree char *path = i ? g_build_filename(folder, "new", NULL) : NULL;
		if (i) { /* the folder itself is a link now */
			g_unlink(file);
			g_rmdir(folder);
			g_assert_cmpint(symlink(".", folder), ==, 0);
		}
		g_assert_cmpint(lchown(links[i], other, other), ==, 0);
		g_assert_null(vms_outfile_open(path ? path : file, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_PERMISSION);
		g_assert_nonnull(strstr(error->message, "another user"));
		g_assert_null(vms_outfile_open_random(path ? path : file, true, NULL));
		assert_content(fixture->path, "precious");
	}
}

/* Another user would read what is written into a pipe of his. */
static void test_foreign_pipe(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_cmpint(mkfifo(fixture->path, 0600), ==, 0);
	int reader = open(fixture->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct vms_outfile *own = vms_outfile_open(fixture->path, &error);
	g_assert_no_error(error);
	vms_outfile_close(own);
	if (geteuid() == 0) {
		g_assert_cmpint(chown(fixture->path, 65534, 65534), ==, 0);
		g_assert_null(vms_outfile_open(fixture->path, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_PERMISSION);
	}
	close(reader);
}

/* A file that is open already is written at its end, not replaced. */
static void test_open_file(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	write_text(fixture->path, "before ");
	int fd = open(fixture->path, O_RDWR | O_CLOEXEC);
	g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
	write_text(path, "and after");
	close(fd);
	assert_content(fixture->path, "before and after");
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

/* A name as long as names may be has no room for more letters. */
static void test_long_name(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	char name[256] = { 0 };
	memset(name, 'x', sizeof(name) - 1);
	g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
	write_text(path, "long");
	assert_content(path, "long");
}

static void test_device(struct fixture *fixture G_GNUC_UNUSED, gconstpointer data G_GNUC_UNUSED)
{
	struct stat stat_buf;
	write_text("/dev/null", "gone");
	g_assert_cmpint(g_stat("/dev/null", &stat_buf), ==, 0);
	g_assert_true(S_ISCHR(stat_buf.st_mode));
}

static void test_full_device(struct fixture *fixture G_GNUC_UNUSED,
			     gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_outfile) file = vms_outfile_open("/dev/full", &error);
	g_assert_no_error(error);
	g_assert_false(vms_outfile_write(file, "x", 1, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_assert_nonnull(strstr(error->message, "/dev/full: No space left"));
}

/* A disk that is full after some bytes: nothing is left behind, what was there stays. */
static void test_full_disk(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *much = g_malloc0(1 << 20);
	struct rlimit old, small;

	write_text(fixture->path, "old");
	signal(SIGXFSZ, SIG_IGN);
	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
	small = (struct rlimit) { 1000, old.rlim_max };
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
	struct vms_outfile *file = vms_outfile_open(fixture->path, &error);
	g_assert_no_error(error);
	g_assert_false(vms_outfile_write(file, much, 1 << 20, &error));
	vms_outfile_close(file);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	assert_content(fixture->path, "old");
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

static void test_no_folder(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *path = g_build_filename(fixture->folder, "no", "report", NULL);
	g_assert_null(vms_outfile_open(path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_assert_nonnull(strstr(error->message, path));
}

static void test_folder(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_outfile_open(fixture->folder, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
}

/* The last step fails: a folder has taken the name meanwhile. */
static void test_rename_fails(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	struct vms_outfile *file = vms_outfile_open(fixture->path, NULL);
	g_assert_true(vms_outfile_write(file, "x", 1, NULL));
	g_assert_cmpint(g_mkdir(fixture->path, 0700), ==, 0);
	g_assert_false(vms_outfile_commit(file, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	vms_outfile_close(file);
	g_assert_cmpuint(count_files(fixture), ==, 1);
	g_rmdir(fixture->path);
}

static struct vms_outfile *open_random(const struct fixture *fixture, bool overwrite)
{
	g_autoptr(GError) error = NULL;
	struct vms_outfile *file = vms_outfile_open_random(fixture->path, overwrite, &error);
	g_assert_no_error(error);
	return file;
}

static void test_random(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_outfile) file = open_random(fixture, false);
	g_autofree char *content = NULL;
	gsize size;
	gint go_on = 0;
	struct stat stat_buf;

	g_assert_true(vms_outfile_write_at(file, 5, "five", 4, NULL));
	g_assert_true(vms_outfile_write_at(file, 1, "one", 3, NULL));
	g_assert_true(vms_outfile_set_size(file, 12, NULL));
	g_assert_cmpuint(vms_outfile_written(file), ==, 7);
	g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
	g_assert_true(vms_outfile_sync(file, &go_on, NULL));
	g_assert_true(vms_outfile_commit(file, NULL));
	g_assert_true(g_file_get_contents(fixture->path, &content, &size, NULL));
	g_assert_cmpmem(content, size, "\0one\0five\0\0\0", 12);
	g_assert_cmpint(g_stat(fixture->path, &stat_buf), ==, 0);
	g_assert_cmpuint(stat_buf.st_mode & 0777, ==, 0600);
	g_assert_cmpuint(stat_buf.st_nlink, ==, 1);
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

/* Refused where it is there at the begin, and where it comes only later. */
static void test_exists(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) early = NULL, late = NULL;
	struct vms_outfile *file = open_random(fixture, false);

	write_text(fixture->path, "old");
	g_assert_null(vms_outfile_open_random(fixture->path, false, &early));
	g_assert_error(early, VMS_ERROR, VMS_ERROR_EXISTS);
	g_assert_nonnull(strstr(early->message, fixture->path));
	g_assert_false(vms_outfile_commit(file, &late));
	g_assert_error(late, VMS_ERROR, VMS_ERROR_EXISTS);
	vms_outfile_close(file);
	assert_content(fixture->path, "old");
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

/* A link that leads nowhere is there, too. */
static void test_dangling(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_cmpint(symlink("nowhere", fixture->path), ==, 0);
	g_assert_null(vms_outfile_open_random(fixture->path, false, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_EXISTS);
}

static void test_overwrite(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	write_text(fixture->path, "old and longer");
	g_autoptr(vms_outfile) file = open_random(fixture, true);
	g_assert_true(vms_outfile_write_at(file, 0, "new", 3, NULL));
	assert_content(fixture->path, "old and longer");
	g_assert_true(vms_outfile_commit(file, NULL));
	assert_content(fixture->path, "new");
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

static void test_not_regular(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_cmpint(mkfifo(fixture->path, 0600), ==, 0);
	g_assert_null(vms_outfile_open_random(fixture->path, true, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	g_assert_null(vms_outfile_open_random("/dev/null", true, NULL));
}

/* All that was written is on the disk before the commit, or it is told that it is not. */
static void test_sync(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_outfile) file = open_random(fixture, false);
	gint go_on = 0;
	g_assert_true(vms_outfile_write_at(file, 0, "x", 1, NULL));
	count_syncs(fixture->path, false);
	g_assert_true(vms_outfile_sync(file, &go_on, NULL));
	g_assert_cmpuint(synced.unnamed, ==, 1);
	synced.fails = true;
	g_assert_false(vms_outfile_sync(file, &go_on, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	synced.path = NULL;
}

static void test_sync_cancelled(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	gint cancelled = 1;
	struct vms_outfile *file = open_random(fixture, false);
	g_assert_true(vms_outfile_set_size(file, 1 << 20, NULL));
	g_assert_false(vms_outfile_sync(file, &cancelled, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CANCELLED);
	vms_outfile_close(file);
	g_assert_cmpuint(count_files(fixture), ==, 0);
}

/* The largest file that the process may write. */
static void test_too_large(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) write_error = NULL, size_error = NULL;
	struct rlimit old, small;

	signal(SIGXFSZ, SIG_IGN);
	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
	small = (struct rlimit) { 1000, old.rlim_max };
	g_autoptr(vms_outfile) file = open_random(fixture, false);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
	g_assert_true(vms_outfile_write_at(file, 990, "0123456789", 10, NULL));
	g_assert_false(vms_outfile_is_full(file));
	bool sized = vms_outfile_set_size(file, 1001, &size_error);
	bool written = vms_outfile_write_at(file, 995, "0123456789", 10, &write_error);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
	g_assert_false(sized);
	g_assert_false(written);
	g_assert_error(size_error, VMS_ERROR, VMS_ERROR_IO);
	g_assert_error(write_error, VMS_ERROR, VMS_ERROR_IO);
	g_assert_true(vms_outfile_is_full(file));
	g_assert_false(vms_outfile_write_at(file, G_MAXUINT64 - 4, "01234567", 8, NULL));
}

/* What a process does that is alone with its mounts and has no /proc; its exit status. */
static int without_proc(const struct fixture *fixture)
{
	gint go_on = 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/proc", "tmpfs", 0, NULL) < 0)
		return 77;
	for (int overwrite = 0; overwrite < 2; overwrite++) {
		g_autoptr(vms_outfile) file = open_random(fixture, overwrite);
		/* It has a temporary name. */
		if (count_files(fixture) != 1U + (unsigned)overwrite ||
		    !vms_outfile_write_at(file, 0, "named", 5, NULL) ||
		    !vms_outfile_sync(file, &go_on, NULL) || !vms_outfile_commit(file, NULL))
			return 1;
	}
	struct vms_outfile *file = open_random(fixture, true);
	vms_outfile_close(file);
	return count_files(fixture) != 1 || vms_outfile_open_random(fixture->path, false, NULL);
}

static const char *find_other(const struct fixture *fixture)
{
	static char found[256];
	g_autoptr(GDir) dir = g_dir_open(fixture->folder, 0, NULL);
	for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
		if (strcmp(name, "report.txt") != 0)
			return g_strlcpy(found, name, sizeof(found)) ? found : NULL;
	}
	return NULL;
}

static GString *logged;

static void on_log(enum vms_log_level level G_GNUC_UNUSED, const char *message,
		   void *data G_GNUC_UNUSED)
{
	g_string_append_printf(logged, "%s\n", message);
}

/* Makes a file without a name useless for this process, as on NFS or vfat. */
static bool have_no_unnamed_files(void)
{
	return mount("none", "/proc/self/fd", "tmpfs", 0, NULL) == 0;
}

/* A child of this one begins a file and is killed. */
static int leave_behind(struct fixture *fixture)
{
	int status;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || !have_no_unnamed_files())
		return 77;
	pid_t child = fork();
	if (child == 0) {
		g_assert_true(have_no_unnamed_files());
		open_random(fixture, false);
		kill(getpid(), SIGKILL);
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpuint(count_files(fixture), ==, 1);
	g_autofree char *left = g_strdup(find_other(fixture));

	/* One that is being written, one of a container, and what is none stay. */
	struct vms_outfile *living = open_random(fixture, false);
	g_autofree char *own = g_strdup(find_other(fixture));
	vms_log_flush();
	g_assert_nonnull(strstr(logged->str, left));
	g_assert_cmpuint(count_files(fixture), ==, 1);
	g_string_truncate(logged, 0);
	struct vms_owner elsewhere = vms_owner_self();
	elsewhere.pid_namespace++;
	g_autofree char *label = vms_owner_label(&elsewhere);
	const char *const others[] = { g_strdup_printf(".report.txt.%s.01234567", label),
				       ".report.txt.vmscope-1.01234567", ".vmscope-" };
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
		g_autofree char *path = g_build_filename(fixture->folder, others[i], NULL);
		g_assert_true(g_file_set_contents(path, "", 0, NULL));
	}
	g_autofree char *second = g_build_filename(fixture->folder, "second", NULL);
	write_text(second, "second");
	g_assert_cmpuint(count_files(fixture), ==, 1 + G_N_ELEMENTS(others) + 1);
	vms_log_flush();
	g_assert_nonnull(strstr(logged->str, others[0]));
	g_assert_null(strstr(logged->str, others[1]));
	g_assert_null(strstr(logged->str, own));
	g_assert_true(vms_outfile_commit(living, NULL));
	vms_outfile_close(living);
	return g_file_test(fixture->path, G_FILE_TEST_EXISTS) ? 0 : 1;
}

/* What was left where a file cannot be without a name is removed by the next that writes there. */
static void test_leftover(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int status;
	pid_t child = fork();
	g_assert_cmpint(child, >=, 0);
	if (child == 0) {
		logged = g_string_new(NULL);
		vms_log_set_handler(on_log, NULL, VMS_LOG_WARNING);
		_exit(leave_behind(fixture));
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		g_test_skip("this user may not have mounts of its own");
	else
		g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

/* Where a file cannot be without a name, it has a temporary one. */
static void test_named(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int status;
	pid_t child = fork();
	g_assert_cmpint(child, >=, 0);
	if (child == 0)
		_exit(without_proc(fixture));
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		g_test_skip("this user may not have mounts of its own");
		return;
	}
	g_assert_cmpint(WEXITSTATUS(status), ==, 0);
	assert_content(fixture->path, "named");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct fixture *fixture, gconstpointer data);
	} tests[] = {
		{ "/outfile/new", test_new },
		{ "/outfile/disk", test_disk },
		{ "/outfile/failing-disk", test_failing_disk },
		{ "/outfile/replace", test_replace },
		{ "/outfile/symlink", test_symlink },
		{ "/outfile/path", test_path },
		{ "/outfile/loop", test_loop },
		{ "/outfile/foreign-link", test_foreign_link },
		{ "/outfile/foreign-pipe", test_foreign_pipe },
		{ "/outfile/open-file", test_open_file },
		{ "/outfile/long-name", test_long_name },
		{ "/outfile/device", test_device },
		{ "/outfile/full-device", test_full_device },
		{ "/outfile/full-disk", test_full_disk },
		{ "/outfile/no-folder", test_no_folder },
		{ "/outfile/folder", test_folder },
		{ "/outfile/rename-fails", test_rename_fails },
		{ "/outfile/random", test_random },
		{ "/outfile/exists", test_exists },
		{ "/outfile/dangling", test_dangling },
		{ "/outfile/overwrite", test_overwrite },
		{ "/outfile/not-regular", test_not_regular },
		{ "/outfile/sync", test_sync },
		{ "/outfile/sync-cancelled", test_sync_cancelled },
		{ "/outfile/too-large", test_too_large },
		{ "/outfile/named", test_named },
		{ "/outfile/leftover", test_leftover },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].name, struct fixture, NULL, set_up, tests[i].run, tear_down);
	return g_test_run();
}
