/* SPDX-License-Identifier: MIT */
/* Files of a guest on its disks: in images, partitions and logical volumes, and copies of them. */
#include "disk/disks.h"
#include "base/budget.h"
#include "disk_encoder.h"
#include <string.h>

#define SECTOR	 512
#define INODE_AT (3 * 1024 + (EXT4_FILE - 1) * 256) /* of the file */
#define MOST	 40

struct fixture {
	struct fake_disk *files[MOST];
	struct vms_disk_image images[MOST];
	unsigned n;
	struct vms_budget *budget;
	struct vms_disks *disks;
	unsigned freed;
};

struct counted {
	struct vms_file_source source;
	struct fixture *f;
};

static bool read_counted(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct counted *counted = data;
	return counted->source.read(counted->source.data, offset, buf, size);
}

static void free_counted(void *data)
{
	((struct counted *)data)->f->freed++;
	g_free(data);
}

/* Adds a file that has a disk, named after its number. `base`: see vms_disk_image. */
static struct fake_disk *add(struct fixture *f, size_t size, int base)
{
	const unsigned i = f->n++;
	g_assert_cmpuint(i, <, MOST);
	f->files[i] = fake_disk_new(size);
	struct counted *counted = g_new(struct counted, 1);
	*counted = (struct counted) { f->files[i]->source, f };
	f->images[i] = (struct vms_disk_image) {
		.file = { .size = size,
			  .read = read_counted,
			  .free = free_counted,
			  .data = counted },
		.path = g_strdup_printf("disk%u", i),
		.base = base,
	};
	return f->files[i];
}

/* Adds an image of a file system's size in which nothing was written. */
static struct fake_disk *add_image(struct fixture *f, int base, bool names_base)
{
	struct fake_disk *file = add(f, 2 * 4096, base);
	fake_disk_put(file, 0, "QFI\xfb", 4);
	fake_disk_put_be(file, 4, 4, 3);
	fake_disk_put_be(file, 20, 4, 12);
	fake_disk_put_be(file, 24, 8, EXT4_FS_SIZE);
	fake_disk_put_be(file, 36, 4, 1);
	fake_disk_put_be(file, 40, 8, 4096);
	if (names_base) {
		fake_disk_put(file, 200, "base.img", 8);
		fake_disk_put_be(file, 8, 8, 200);
		fake_disk_put_be(file, 16, 4, 8);
	}
	return file;
}

static void scan(struct fixture *f)
{
	f->disks = vms_disks_scan(f->images, f->n, f->budget);
}

static void tear_down(struct fixture *f)
{
	g_assert_cmpuint(f->freed, ==, 0);
	vms_disks_free(f->disks);
	g_assert_cmpuint(f->freed, ==, f->n);
	for (unsigned i = 0; i < f->n; i++)
		fake_disk_free(f->files[i]);
	vms_budget_unref(f->budget);
}

static struct vms_drive_file file_of(uint8_t uuid)
{
	struct vms_drive_file file = { .inode = EXT4_FILE, .size = EXT4_FILE_SIZE };
	memset(file.uuid, uuid, sizeof(file.uuid));
	return file;
}

static void check_file(struct fixture *f, const struct vms_drive_file *file, unsigned copy,
		       unsigned seed)
{
	g_autoptr(GError) error = NULL;
	struct vms_file_source source;
	uint8_t expected[EXT4_FILE_SIZE];
	fake_content(expected, EXT4_FILE_SIZE, seed);
	vms_disks_open_file(f->disks, file, copy, &source, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(source.size, ==, EXT4_FILE_SIZE);
	fake_disk_check(&source, 0, EXT4_FILE_SIZE, expected);
	vms_file_source_clear(&source);
}

static void check_copy(struct fixture *f, uint8_t uuid, unsigned copy, unsigned seed)
{
	const struct vms_drive_file file = file_of(uuid);
	check_file(f, &file, copy, seed);
}

static void check_missing(struct fixture *f, const struct vms_drive_file *file, unsigned copy,
			  const char *reason)
{
	g_autoptr(GError) error = NULL;
	struct vms_file_source source;
	g_assert_false(vms_disks_open_file(f->disks, file, copy, &source, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	if (!strstr(error->message, reason))
		g_error("'%s' is not in '%s'", reason, error->message);
}

static void check_no_fs(struct fixture *f, uint8_t uuid, const char *reason)
{
	const struct vms_drive_file file = file_of(uuid);
	check_missing(f, &file, 0, "its file system is on none of the disks that can be read");
	check_missing(f, &file, 0, reason);
}

/* ---- files ---------------------------------------------------------------- */

/* The one that is looked for has that size, and was changed then. */
static void test_file(void)
{
	struct fixture f = { 0 };
	ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 7, 1);
	ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 8, 2);
	scan(&f);
	check_copy(&f, 7, 0, 1);
	check_copy(&f, 8, 0, 2);
	struct vms_drive_file file = file_of(8);
	file.has_change = true;
	check_missing(&f, &file, 0, "another time of change");
	file.change_s = EXT4_FILE_CHANGE;
	check_file(&f, &file, 0, 2);
	file.size--;
	check_missing(&f, &file, 0, "another size");
	file.inode++;
	check_missing(&f, &file, 0, "no regular file");
	check_no_fs(&f, 9, "");
	tear_down(&f);
}

/* Of several file systems with one UUID those count that have the file. */
static void test_copies(void)
{
	struct fixture f = { 0 };
	for (unsigned i = 0; i < 4; i++)
		ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 7, i + 1);
	fake_disk_put_le(f.files[1], INODE_AT + 4, 4, EXT4_FILE_SIZE + 1);
	scan(&f);
	check_copy(&f, 7, 0, 1);
	check_copy(&f, 7, 1, 3);
	check_copy(&f, 7, 2, 4);
	const struct vms_drive_file file = file_of(7);
	check_missing(&f, &file, 3, "it has no more copies");
	check_missing(&f, &file, UINT_MAX, "it has no more copies");
	tear_down(&f);
}

/* ---- what disks hold -------------------------------------------------------- */

static void put_partition(struct fake_disk *disk, unsigned i, uint32_t first, uint32_t n)
{
	const unsigned at = 446 + 16 * i;
	fake_disk_put_le(disk, 510, 2, 0xaa55);
	fake_disk_put_le(disk, at + 4, 1, 0x83);
	fake_disk_put_le(disk, at + 8, 4, first);
	fake_disk_put_le(disk, at + 12, 4, n);
}

static void test_partitions(void)
{
	struct fixture f = { 0 };
	struct fake_disk *disk = add(&f, 3 * EXT4_FS_SIZE, -1);
	put_partition(disk, 0, EXT4_FS_SIZE / SECTOR, EXT4_FS_SIZE / SECTOR);
	put_partition(disk, 1, 2 * EXT4_FS_SIZE / SECTOR, EXT4_FS_SIZE / SECTOR);
	ext4_put_fs(disk, EXT4_FS_SIZE, 7, 1);
	ext4_put_fs(disk, 2 * EXT4_FS_SIZE, 8, 2);
	scan(&f);
	check_copy(&f, 7, 0, 1);
	check_copy(&f, 8, 0, 2);
	tear_down(&f);
}

/* What cannot be read is told, with the disk that has it. */
static void test_obstacles(void)
{
	static const struct {
		unsigned at;
		const char *magic, *reason;
	} cases[] = {
		{ 0, "LUKS\xba\xbe", "(disk0: it is encrypted (LUKS))" },
		{ 0, "XFSB", "(disk0: its file system is xfs, which is not read)" },
		{ 0x10040, "_BHRfS_M", "(disk0: its file system is btrfs, which is not read)" },
		{ 1024, "\x10\x20\xf5\xf2", "(disk0: its file system is f2fs, which is not read)" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct fixture f = { 0 };
		struct fake_disk *disk = add(&f, 2 * EXT4_FS_SIZE, -1);
		put_partition(disk, 0, EXT4_FS_SIZE / SECTOR, EXT4_FS_SIZE / SECTOR);
		fake_disk_put(disk, EXT4_FS_SIZE + cases[i].at, cases[i].magic,
			      strlen(cases[i].magic));
		ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 8, 2);
		scan(&f);
		check_no_fs(&f, 7, cases[i].reason);
		check_copy(&f, 8, 0, 2);
		tear_down(&f);
	}
}

static void test_damaged_fs(void)
{
	struct fixture f = { 0 };
	struct fake_disk *disk = add(&f, EXT4_FS_SIZE, -1);
	ext4_put_fs(disk, 0, 7, 1);
	fake_disk_put_le(disk, 1024 + 96, 4, 1);
	disk = add(&f, EXT4_FS_SIZE, -1);
	ext4_put_fs(disk, 0, 7, 1);
	fake_disk_put_le(disk, 1024 + 24, 4, 99);
	scan(&f);
	check_no_fs(&f, 7,
		    "(disk0: its ext4 file system has features that are not understood (0x1); "
		    "disk1: the superblock of its ext4 file system is damaged)");
	tear_down(&f);
}

static void test_no_disks(void)
{
	struct fixture f = { 0 };
	scan(&f);
	check_no_fs(&f, 7, "(QEMU has none open as a file of this host)");
	tear_down(&f);
}

/* ---- images -------------------------------------------------------------------- */

/* A disk below others is none by itself: alone, it is one of another time. */
static void test_based(void)
{
	struct fixture f = { 0 };
	ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 7, 1);
	add_image(&f, 0, true);
	add_image(&f, 1, true);
	scan(&f);
	check_copy(&f, 7, 0, 1);
	const struct vms_drive_file file = file_of(7);
	check_missing(&f, &file, 1, "no more copies");
	tear_down(&f);
}

static void test_lacks_base(void)
{
	struct fixture f = { 0 };
	add_image(&f, -1, true);
	ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 8, 2);
	scan(&f);
	check_no_fs(
		&f, 7,
		"(disk0: it is based on base.img, which cannot be found among QEMU's open files)");
	check_copy(&f, 8, 0, 2);
	tear_down(&f);
}

/* What an image names no base for has none, whatever else is there. */
static void test_no_base(void)
{
	struct fixture f = { 0 };
	ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 7, 1);
	add_image(&f, 0, false);
	scan(&f);
	check_no_fs(&f, 7, "");
	tear_down(&f);
}

static void test_damaged_image(void)
{
	struct fixture f = { 0 };
	fake_disk_put_be(add_image(&f, -1, false), 20, 4, 99);
	scan(&f);
	check_no_fs(&f, 7, "(disk0: the image's header is damaged)");
	tear_down(&f);
}

/* As many images as may be based on one another, and one more. */
static void test_depth(void)
{
	for (unsigned n = 16; n <= 17; n++) {
		struct fixture f = { 0 };
		ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 7, 1);
		for (unsigned i = 0; i < n; i++)
			add_image(&f, (int)i, true);
		scan(&f);
		if (n == 16)
			check_copy(&f, 7, 0, 1);
		else
			check_no_fs(&f, 7, "it is based on");
		tear_down(&f);
	}
}

/* Images that are based on one another in a circle end nowhere, and cost no other disk. */
static void test_circle(void)
{
	struct fixture f = { 0 };
	ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 8, 2);
	add_image(&f, 2, true);
	add_image(&f, 1, true);
	add_image(&f, 2, true);
	add_image(&f, 4, true); /* on itself */
	scan(&f);
	check_no_fs(&f, 7, "(disk3: it is based on");
	check_copy(&f, 8, 0, 2);
	tear_down(&f);
}

/* ---- logical volumes -------------------------------------------------------------- */

#define VG_BEGIN                                                                                   \
	"vg { id = \"group\" seqno = 5 extent_size = 8 physical_volumes { "                        \
	"pv0 { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" pe_start = 128 } "                  \
	"pv1 { id = \"bbbbbb-bbbb-bbbb-bbbb-bbbb-bbbb-bbbbbb\" pe_start = 128 } } "                \
	"logical_volumes { one { status = [\"VISIBLE\"] "
#define SEGMENT(i, start, n, pv, first)                                                            \
	"segment" i " { start_extent = " start " extent_count = " n                                \
	" type = \"striped\" stripe_count = 1 stripes = [\"" pv "\", " first "] } "

/* A file system on two disks, of which that with the text comes last. */
static void test_logical(void)
{
	enum { EXTENT = 4096, BEGIN = 64 << 10, FIRST = 10, HALF = 16 * EXTENT };
	static const char text[] = VG_BEGIN SEGMENT("1", "0", "16", "pv1", "10")
		SEGMENT("2", "16", "16", "pv0", "0") "} } }";
	g_autoptr(fake_disk) fs = fake_disk_new(EXT4_FS_SIZE);
	struct fixture f = { 0 };
	ext4_put_fs(fs, 0, 7, 1);
	for (unsigned i = 0; i < 2; i++) {
		struct fake_disk *disk = add(&f, BEGIN + 40 * EXTENT, -1);
		lvm_put_volume(disk, 0, 1, i ? 'a' : 'b', i ? text : NULL);
		fake_disk_put(disk, BEGIN + (i ? 0 : FIRST * EXTENT), fs->bytes + i * HALF, HALF);
	}
	scan(&f);
	check_copy(&f, 7, 0, 1);
	tear_down(&f);
}

static void test_logical_obstacle(void)
{
	static const char text[] = VG_BEGIN SEGMENT("1", "0", "16", "pv1", "10") "} } }";
	struct fixture f = { 0 };
	lvm_put_volume(add(&f, EXT4_FS_SIZE, -1), 0, 1, 'a', text);
	scan(&f);
	check_no_fs(&f, 7, "(vg/one: a disk of its group is missing)");
	tear_down(&f);
}

/* ---- budgets ------------------------------------------------------------------------ */

/* A disk that costs all of its part costs nothing of another's, and is told of. */
static void test_budget(void)
{
	enum { LONG = 1 << 20 };
	struct fixture f = { .budget = fake_disk_budget(500000, 10 << 20) };
	g_autofree char *text = g_malloc0(LONG + 1);
	memset(text, '#', LONG);
	struct fake_disk *disk = add(&f, 3 * LONG, -1);
	lvm_put_volume(disk, 0, 1, 'a', "");
	fake_disk_put_le(disk, SECTOR + 112, 8, 2 * LONG);
	lvm_put_text(disk, 4096, 2 * LONG, SECTOR, text);
	ext4_put_fs(add(&f, EXT4_FS_SIZE, -1), 0, 8, 2);
	scan(&f);
	check_copy(&f, 8, 0, 2);
	g_autofree char *losses = vms_budget_describe_losses(f.budget);
	g_assert_nonnull(losses);
	g_assert_nonnull(strstr(losses, "the guest's disk disk0: more than"));
	g_assert_null(strstr(losses, "disk1"));
	tear_down(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/disks/file", test_file);
	g_test_add_func("/disks/copies", test_copies);
	g_test_add_func("/disks/partitions", test_partitions);
	g_test_add_func("/disks/obstacles", test_obstacles);
	g_test_add_func("/disks/damaged-fs", test_damaged_fs);
	g_test_add_func("/disks/none", test_no_disks);
	g_test_add_func("/disks/based", test_based);
	g_test_add_func("/disks/based/lacking", test_lacks_base);
	g_test_add_func("/disks/based/none", test_no_base);
	g_test_add_func("/disks/based/damaged", test_damaged_image);
	g_test_add_func("/disks/based/depth", test_depth);
	g_test_add_func("/disks/based/circle", test_circle);
	g_test_add_func("/disks/logical", test_logical);
	g_test_add_func("/disks/logical/obstacle", test_logical_obstacle);
	g_test_add_func("/disks/budget", test_budget);
	return g_test_run();
}
