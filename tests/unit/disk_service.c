/* SPDX-License-Identifier: MIT */
/* Requests to the service that reads disks: what it answers, and what it refuses. */
#include "disk/disk_service.h"
#include "base/budget.h"
#include "disk_encoder.h"
#include "memory_file.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define UUID 7
#define SEED 1

struct fixture {
	void *state;
	struct fake_disk *disk;
	struct memory_file *image;
	GByteArray *answer;
	int fd;	       /* that the last request has brought, or -1 if the service has taken it */
	GError *error; /* of the last request */
};

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->state = vms_disk_service.begin(NULL);
	f->answer = g_byte_array_new();
	f->disk = fake_disk_new(EXT4_FS_SIZE);
	ext4_put_fs(f->disk, 0, UUID, SEED);
	f->image = memory_file_new(f->disk->bytes, EXT4_FS_SIZE);
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_clear_error(&f->error);
	vms_disk_service.end(f->state);
	g_byte_array_unref(f->answer);
	fake_disk_free(f->disk);
	memory_file_free(f->image);
}

/* Serves a request with or without a descriptor. Returns 0, or the code of the error. */
static int serve(struct fixture *f, uint32_t kind, const void *bytes, size_t size, bool has_fd)
{
	/* Exactly so many bytes, so that each that is read beyond them is found. */
	g_autofree uint8_t *own = g_memdup2(bytes, size);
	struct vms_jail_work work = { .kind = kind,
				      .bytes = { own, size, NULL },
				      .fds = &f->fd,
				      .n_fds = has_fd,
				      .answer = f->answer };
	f->fd = has_fd ? fcntl(f->image->fd, F_DUPFD_CLOEXEC, 0) : -1;
	g_byte_array_set_size(f->answer, 0);
	g_clear_error(&f->error);
	const bool done = vms_disk_service.serve(f->state, &work, &f->error);
	if (has_fd && f->fd >= 0)
		close(f->fd);
	g_assert_true(done == !f->error);
	if (!done)
		g_assert_cmpuint(f->error->domain, ==, VMS_ERROR);
	return done ? 0 : f->error->code;
}

/* Adds the image under a name of `path_size` bytes; `cut` of the request are not sent. */
static int add(struct fixture *f, uint32_t path_size, size_t cut)
{
	uint8_t bytes[sizeof(struct vms_disk_added) + 5];
	const struct vms_disk_added added = { .size = EXT4_FS_SIZE, .path_size = path_size };
	memcpy(bytes, &added, sizeof(added));
	memcpy(bytes + sizeof(added), "disk", 5);
	return serve(f, VMS_DISK_ADD, bytes, sizeof(bytes) - cut, true);
}

static int scan(struct fixture *f, int32_t base)
{
	return serve(f, VMS_DISK_SCAN, &base, sizeof(base), false);
}

static struct vms_disk_open make_open(void)
{
	struct vms_disk_open wanted = { .file = { .inode = EXT4_FILE, .size = EXT4_FILE_SIZE } };
	memset(wanted.file.uuid, UUID, sizeof(wanted.file.uuid));
	return wanted;
}

static uint32_t open_file(struct fixture *f)
{
	const struct vms_disk_open wanted = make_open();
	struct vms_disk_opened opened;
	g_assert_cmpint(serve(f, VMS_DISK_OPEN, &wanted, sizeof(wanted), false), ==, 0);
	g_assert_cmpuint(f->answer->len, ==, sizeof(opened));
	memcpy(&opened, f->answer->data, sizeof(opened));
	g_assert_cmpuint(opened.size, ==, EXT4_FILE_SIZE);
	return opened.handle;
}

static int read_file(struct fixture *f, uint32_t handle, uint64_t offset, uint32_t size)
{
	const struct vms_disk_read wanted = { .offset = offset, .handle = handle, .size = size };
	return serve(f, VMS_DISK_READ, &wanted, sizeof(wanted), false);
}

static void check_file(struct fixture *f, uint32_t handle)
{
	const uint8_t *content = f->disk->bytes + EXT4_FILE_DATA;
	g_assert_cmpint(read_file(f, handle, 0, EXT4_FILE_SIZE), ==, 0);
	g_assert_cmpmem(f->answer->data, f->answer->len, content, EXT4_FILE_SIZE);
	g_assert_cmpint(read_file(f, handle, 1000, 77), ==, 0);
	g_assert_cmpmem(f->answer->data, f->answer->len, content + 1000, 77);
}

static void close_file(struct fixture *f, uint32_t handle)
{
	g_assert_cmpint(serve(f, VMS_DISK_CLOSE, &handle, sizeof(handle), false), ==, 0);
}

static void begin_reading(struct fixture *f)
{
	g_assert_cmpint(add(f, 5, 0), ==, 0);
	g_assert_cmpint(f->fd, ==, -1); /* the service has it */
	g_assert_cmpmem(f->answer->data, f->answer->len, "", 1);
	g_assert_cmpint(scan(f, -1), ==, 0);
}

static void test_read(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	begin_reading(f);
	const uint32_t first = open_file(f), second = open_file(f);
	g_assert_cmpuint(first, !=, second);
	check_file(f, first);
	check_file(f, second);
	close_file(f, first);
	check_file(f, second);
	/* Of what cannot be read, nothing is answered. */
	g_assert_cmpint(read_file(f, first, 0, 1), ==, VMS_ERROR_UNREADABLE);
	g_assert_cmpint(read_file(f, UINT32_MAX, 0, 1), ==, VMS_ERROR_UNREADABLE);
	g_assert_cmpint(read_file(f, second, EXT4_FILE_SIZE, 1), ==, VMS_ERROR_UNREADABLE);
	g_assert_cmpint(read_file(f, second, UINT64_MAX, 2), ==, VMS_ERROR_UNREADABLE);
	g_assert_cmpuint(f->answer->len, ==, 0);
}

/* Files that were closed leave room for others, however many there were. */
static void test_many(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	begin_reading(f);
	const uint32_t kept = open_file(f);
	for (unsigned i = 0; i < 70000; i++)
		close_file(f, open_file(f));
	check_file(f, kept);
	const uint32_t first = open_file(f);
	close_file(f, first);
	close_file(f, first); /* no file has it any more */
	close_file(f, 99);
	const uint32_t second = open_file(f), third = open_file(f);
	g_assert_cmpuint(second, !=, third);
	g_assert_cmpuint(second, !=, kept);
	g_assert_cmpuint(third, !=, kept);
	check_file(f, second);
	check_file(f, third);
}

/* So many files at once, and no more. */
static void test_most(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_disk_open wanted = make_open();
	begin_reading(f);
	for (unsigned i = 0; i < 65536; i++)
		g_assert_cmpuint(open_file(f), ==, i);
	g_assert_cmpint(serve(f, VMS_DISK_OPEN, &wanted, sizeof(wanted), false), ==,
			VMS_ERROR_PROTOCOL);
	close_file(f, 1000);
	g_assert_cmpuint(open_file(f), ==, 1000);
}

static void test_no_such_file(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_disk_open wanted = make_open();
	begin_reading(f);
	wanted.copy = 1;
	g_assert_cmpint(serve(f, VMS_DISK_OPEN, &wanted, sizeof(wanted), false), ==,
			VMS_ERROR_NOT_FOUND);
	g_assert_cmpuint(f->answer->len, ==, 0);
}

/* Requests in a wrong order. */
static void test_order(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_disk_open wanted = make_open();
	g_assert_cmpint(serve(f, VMS_DISK_OPEN, &wanted, sizeof(wanted), false), ==,
			VMS_ERROR_PROTOCOL);
	begin_reading(f);
	g_assert_cmpint(add(f, 5, 0), ==, VMS_ERROR_PROTOCOL);
	g_assert_cmpint(serve(f, VMS_DISK_SCAN, NULL, 0, false), ==, VMS_ERROR_PROTOCOL);
	check_file(f, open_file(f));
}

/* Requests that are too short, or name what is not there. */
static void test_malformed(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_disk_open wanted = make_open();
	const struct vms_disk_read read = { .size = VMS_DISK_READ_LIMIT + 1 };
	for (size_t cut = 1; cut <= sizeof(struct vms_disk_added) + 5; cut++) {
		g_assert_cmpint(add(f, 5, cut), ==, VMS_ERROR_PROTOCOL);
		g_assert_cmpint(f->fd, >=, 0); /* it stays the jail's to close */
	}
	g_assert_cmpint(add(f, 0, 0), ==, VMS_ERROR_PROTOCOL);
	g_assert_cmpint(add(f, 6, 0), ==, VMS_ERROR_PROTOCOL);
	g_assert_cmpint(add(f, UINT32_MAX, 0), ==, VMS_ERROR_PROTOCOL);
	g_assert_cmpint(add(f, 5, 0), ==, 0);
	const int32_t bases[] = { -1, -1 };
	g_assert_cmpint(serve(f, VMS_DISK_SCAN, bases, 8, false), ==, VMS_ERROR_PROTOCOL);
	g_assert_cmpint(serve(f, VMS_DISK_SCAN, bases, 3, false), ==, VMS_ERROR_PROTOCOL);
	g_assert_cmpint(scan(f, -1), ==, 0);
	const uint32_t handle = open_file(f);
	for (size_t size = 0; size < sizeof(wanted); size++)
		g_assert_cmpint(serve(f, VMS_DISK_OPEN, &wanted, size, false), ==,
				VMS_ERROR_PROTOCOL);
	for (size_t size = 0; size < sizeof(read); size++)
		g_assert_cmpint(serve(f, VMS_DISK_READ, &(struct vms_disk_read) { 0 }, size, false),
				==, VMS_ERROR_PROTOCOL);
	for (size_t size = 0; size < sizeof(handle); size++)
		g_assert_cmpint(serve(f, VMS_DISK_CLOSE, &handle, size, false), ==,
				VMS_ERROR_PROTOCOL);
	g_assert_cmpint(serve(f, VMS_DISK_READ, &read, sizeof(read), false), ==,
			VMS_ERROR_PROTOCOL);
	g_assert_cmpint(serve(f, VMS_DISK_CLOSE + 1, NULL, 0, false), ==, VMS_ERROR_PROTOCOL);
	check_file(f, handle);
}

/* The name of what an image is based on is answered, before anything else is read of it. */
static void test_base(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	memset(f->disk->bytes, 0, 4096);
	fake_disk_put(f->disk, 0, "QFI\xfb", 4);
	fake_disk_put_be(f->disk, 4, 4, 3);
	fake_disk_put_be(f->disk, 8, 8, 200);
	fake_disk_put_be(f->disk, 16, 4, 8);
	fake_disk_put(f->disk, 200, "base.img", 8);
	memory_file_put(f->image, 0, f->disk->bytes, 4096);
	g_assert_cmpint(add(f, 3, 0), ==, 0);
	g_assert_cmpmem(f->answer->data, f->answer->len, "base.img", 9);
	/* There is no image of that number. A path without an end is cut. */
	const struct vms_disk_open wanted = make_open();
	g_assert_cmpint(scan(f, 1), ==, 0);
	g_assert_cmpint(serve(f, VMS_DISK_OPEN, &wanted, sizeof(wanted), false), ==,
			VMS_ERROR_NOT_FOUND);
	g_assert_nonnull(strstr(f->error->message, "(di: it is based on base.img, which"));
}

#define TEST(path, function)                                                                       \
	g_test_add("/disk-service/" path, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	TEST("read", test_read);
	TEST("many", test_many);
	TEST("most", test_most);
	TEST("no-such-file", test_no_such_file);
	TEST("order", test_order);
	TEST("malformed", test_malformed);
	TEST("base", test_base);
	return g_test_run();
}
