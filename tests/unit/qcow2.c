/* SPDX-License-Identifier: MIT */
/* Images of QEMU, laid out by hand from its docs/interop/qcow2.txt. */
#include "disk/qcow2.h"
#include "base/budget.h"
#include "fake_disk.h"
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define VERSION	      4 /* offsets in the header */
#define BACKING_AT    8
#define BACKING_SIZE  16
#define CLUSTER_BITS  20
#define DISK_SIZE     24
#define ENCRYPTION    32
#define N_L1	      36
#define L1_AT	      40
#define FEATURES      72
#define COMPRESSION   104
#define COPIED	      (UINT64_C(1) << 63)
#define IS_COMPRESSED (UINT64_C(1) << 62)
#define ZEROS	      1
#define MIB	      (UINT64_C(1) << 20)

struct fixture {
	struct fake_disk *file, *below;
	struct vms_file_source disk; /* in the image */
	unsigned bits;
	uint64_t end; /* of the clusters of the file that are in use */
};

static uint64_t cluster_size(const struct fixture *f)
{
	return UINT64_C(1) << f->bits;
}

/* The offset of the next cluster of the file that is free. */
static uint64_t take_cluster(struct fixture *f)
{
	const uint64_t at = f->end;
	f->end += cluster_size(f);
	g_assert_cmpuint(f->end, <=, f->file->source.size);
	return at;
}

/* Begins an image of `size` bytes, in a file of `n_clusters`. Its first table is in one cluster. */
static void begin(struct fixture *f, unsigned bits, uint64_t size, unsigned n_clusters)
{
	*f = (struct fixture) { .bits = bits };
	f->file = fake_disk_new((size_t)n_clusters << bits);
	take_cluster(f);
	fake_disk_put(f->file, 0, "QFI\xfb", 4);
	fake_disk_put_be(f->file, VERSION, 4, 3);
	fake_disk_put_be(f->file, CLUSTER_BITS, 4, bits);
	fake_disk_put_be(f->file, DISK_SIZE, 8, size);
	const uint64_t covered = UINT64_C(1) << (2 * bits - 3);
	fake_disk_put_be(f->file, N_L1, 4, (size + covered - 1) / covered);
	fake_disk_put_be(f->file, L1_AT, 8, take_cluster(f));
}

/* Sets what the tables say of the cluster at an offset of the disk. */
static void put_entry(struct fixture *f, uint64_t offset, uint64_t entry)
{
	const uint64_t in_table = UINT64_C(1) << (f->bits - 3);
	const uint64_t cluster = offset >> f->bits;
	const uint64_t l1_at = cluster_size(f) + cluster / in_table * 8;
	uint64_t table;
	memcpy(&table, f->file->bytes + l1_at, sizeof(table));
	if (table == 0) {
		table = take_cluster(f);
		fake_disk_put_be(f->file, l1_at, 8, COPIED | table);
	} else {
		table = GUINT64_FROM_BE(table) & ~COPIED;
	}
	fake_disk_put_be(f->file, table + cluster % in_table * 8, 8, entry);
}

/* Puts a cluster of data; the seed of its content is its number. */
static void put_data(struct fixture *f, uint64_t offset)
{
	const uint64_t at = take_cluster(f);
	fake_disk_fill(f->file, at, cluster_size(f), (unsigned)(offset >> f->bits) + 1);
	put_entry(f, offset, COPIED | at);
}

/* Gives the disk that the image is based on: as large as all that is read, or smaller. */
static struct vms_file_source put_below(struct fixture *f, size_t size)
{
	f->below = fake_disk_new(size);
	fake_disk_fill(f->below, 0, size, 1000);
	return f->below->source;
}

static bool try_open(struct fixture *f, const struct vms_file_source *below, GError **error)
{
	const struct vms_file_source none = { 0 };
	return vms_qcow2_open(&f->file->source, below ? below : &none, &f->disk, error);
}

static void open_image(struct fixture *f, const struct vms_file_source *below)
{
	g_autoptr(GError) error = NULL;
	try_open(f, below, &error);
	g_assert_no_error(error);
}

static void finish(struct fixture *f)
{
	vms_file_source_clear(&f->disk);
	fake_disk_free(f->file);
	if (f->below)
		fake_disk_free(f->below);
}

static void expect_data(const struct fixture *f, uint8_t *expected, uint64_t offset)
{
	fake_content(expected, cluster_size(f), (unsigned)(offset >> f->bits) + 1);
}

/* ---- clusters ---------------------------------------------------------- */

/* The kinds of clusters, in a row that begins at an offset of the disk. */
static void check_row(unsigned bits, uint64_t offset)
{
	enum { N = 6 };
	const uint64_t size = UINT64_C(1) << bits;
	g_autofree uint8_t *expected = g_malloc0(N * size);
	struct fixture f;
	begin(&f, bits, offset + N * size - 100, 12);
	put_data(&f, offset + 5 * size); /* not in the order of the disk */
	put_data(&f, offset);
	put_data(&f, offset + size);
	const uint64_t hidden = take_cluster(&f);
	fake_disk_fill(f.file, hidden, size, 7);
	put_entry(&f, offset + 2 * size, COPIED | hidden | ZEROS);
	put_entry(&f, offset + 3 * size, ZEROS);
	/* That at 4 was never written. */
	expect_data(&f, expected, offset);
	expect_data(&f, expected + size, offset + size);
	expect_data(&f, expected + 5 * size, offset + 5 * size);
	open_image(&f, NULL);
	g_assert_cmpuint(f.disk.size, ==, offset + N * size - 100);
	fake_disk_check(&f.disk, offset, f.disk.size, expected);
	g_assert_false(vms_file_source_read(&f.disk, f.disk.size - 1, expected, 2));
	finish(&f);
}

static void test_clusters(void)
{
	for (unsigned bits = 9; bits <= 18; bits++) {
		const uint64_t in_table = UINT64_C(1) << (bits - 3);
		check_row(bits, 0);
		check_row(bits, (in_table - 6) << bits); /* at the end of a table */
		check_row(bits, (in_table - 2) << bits); /* across two */
		check_row(bits, (5 * in_table + 3) << bits);
	}
	check_row(21, 0);
}

/* A disk that no cluster was written of, nor a table. */
static void test_empty(void)
{
	static const uint8_t zeros[5000];
	struct fixture f;
	begin(&f, 12, sizeof(zeros), 2);
	open_image(&f, NULL);
	fake_disk_check(&f.disk, 0, sizeof(zeros), zeros);
	finish(&f);
	/* What is behind the end of the first table, whatever is there in the file. */
	begin(&f, 12, sizeof(zeros), 4);
	put_data(&f, 0);
	fake_disk_put_be(f.file, N_L1, 4, 0);
	open_image(&f, NULL);
	fake_disk_check(&f.disk, 0, sizeof(zeros), zeros);
	finish(&f);
}

/* More tables than are kept: each is read again when it is needed again. */
static void test_many_tables(void)
{
	enum { BITS = 9, N = 40 };
	const uint64_t covered = UINT64_C(1) << (2 * BITS - 3);
	uint8_t expected[1 << BITS];
	struct fixture f;
	begin(&f, BITS, N * covered, 2 + 2 * N);
	for (uint64_t i = 0; i < N; i++)
		put_data(&f, i * covered);
	open_image(&f, NULL);
	for (uint64_t i = 0; i < 3 * N; i++) {
		const uint64_t at = (i * 7 % N) * covered;
		expect_data(&f, expected, at);
		fake_disk_check(&f.disk, at, at + sizeof(expected), expected);
	}
	finish(&f);
}

/* A table that cannot be read does not take the place of one that is kept. */
static void test_lost_table(void)
{
	enum { BITS = 9, SIZE = 1 << BITS };
	const uint64_t covered = UINT64_C(1) << (2 * BITS - 3);
	uint8_t expected[SIZE], byte;
	struct fixture f;
	begin(&f, BITS, 2 * covered, 6);
	put_data(&f, 0);
	put_data(&f, covered);
	expect_data(&f, expected, 0);
	f.file->lost_begin = 5 * SIZE; /* the second table */
	f.file->lost_end = 6 * SIZE;
	open_image(&f, NULL);
	for (unsigned i = 0; i < 40; i++) { /* more than there are places */
		g_assert_false(vms_file_source_read(&f.disk, covered, &byte, 1));
		fake_disk_check(&f.disk, 0, SIZE, expected);
	}
	f.file->lost_end = 0;
	expect_data(&f, expected, covered);
	fake_disk_check(&f.disk, covered, covered + SIZE, expected);
	finish(&f);
}

/* One table is read once, unless it is old. */
static void test_kept_table(void)
{
	enum { BITS = 12, N = 100 };
	uint8_t expected[1 << BITS];
	struct fixture f;
	begin(&f, BITS, MIB, 5);
	put_data(&f, 0);
	open_image(&f, NULL);
	for (unsigned i = 0; i < N; i++)
		g_assert_true(vms_file_source_read(&f.disk, 0, expected, sizeof(expected)));
	/* The first table, and the data; and not so slow that it is old each time. */
	g_assert_cmpuint(f.file->reads, >=, 2 * N);
	g_assert_cmpuint(f.file->reads, <, 2 * N + N / 2);
	if (g_test_slow()) {
		put_entry(&f, 0, ZEROS);
		g_usleep(1100000);
		g_assert_true(vms_file_source_read(&f.disk, 0, expected, sizeof(expected)));
		g_assert_cmpuint(expected[0] | expected[1] | expected[2], ==, 0);
	}
	finish(&f);
}

/* ---- a disk below --------------------------------------------------------- */

/* What was never written is what is below; behind the end of that are zeros. */
static void test_below(void)
{
	enum { BITS = 12, SIZE = 1 << BITS, N = 5, BELOW = 3 * SIZE + 1000 };
	g_autofree uint8_t *expected = g_malloc0(N * SIZE);
	struct fixture f;
	begin(&f, BITS, N * SIZE, 5);
	const struct vms_file_source below = put_below(&f, BELOW);
	put_data(&f, SIZE);
	put_entry(&f, 2 * SIZE, ZEROS);
	memcpy(expected, f.below->bytes, BELOW);
	expect_data(&f, expected + SIZE, SIZE);
	memset(expected + 2 * SIZE, 0, SIZE);
	open_image(&f, &below);
	fake_disk_check(&f.disk, 0, N * SIZE, expected);
	finish(&f);
}

static void count_free(void *data)
{
	++*(unsigned *)data;
}

/* Both sources are freed with the disk, or when it cannot be opened. */
static void test_ownership(void)
{
	for (int damaged = 0; damaged < 2; damaged++) {
		struct fixture f;
		unsigned freed[2] = { 0 };
		begin(&f, 12, MIB, 2);
		struct vms_file_source below = { .free = count_free, .data = &freed[0] };
		struct vms_file_source file = f.file->source;
		struct vms_file_source disk;
		uint8_t *header = g_memdup2(f.file->bytes, 4096);
		file = vms_file_source_of_memory(header, 4096);
		below.read = file.read;
		if (damaged)
			header[VERSION + 3] = 9;
		g_assert_true(vms_qcow2_open(&file, &below, &disk, NULL) == !damaged);
		g_assert_cmpuint(freed[0], ==, damaged);
		if (!damaged)
			vms_file_source_clear(&disk);
		g_assert_cmpuint(freed[0], ==, 1);
		finish(&f);
	}
}

static void test_name_of_below(void)
{
	struct fixture f;
	char name[1024];
	memset(name, 'x', sizeof(name));
	begin(&f, 12, MIB, 2);
	g_assert_null(vms_qcow2_backing(&f.file->source));
	fake_disk_put(f.file, 200, "base.img?", 9);
	fake_disk_put_be(f.file, BACKING_AT, 8, 200);
	g_assert_null(vms_qcow2_backing(&f.file->source)); /* without a size */
	fake_disk_put_be(f.file, BACKING_SIZE, 4, 8);
	g_autofree char *short_name = vms_qcow2_backing(&f.file->source);
	g_assert_cmpstr(short_name, ==, "base.img");
	fake_disk_put(f.file, 200, name, sizeof(name));
	fake_disk_put_be(f.file, BACKING_SIZE, 4, 1023);
	g_autofree char *long_name = vms_qcow2_backing(&f.file->source);
	g_assert_cmpuint(strlen(long_name), ==, 1023);
	finish(&f);
}

/* Without the disk below, what was never written would be zeros: also if its name is damaged. */
static void test_lacks_below(void)
{
	static const uint32_t sizes[] = { 8, 1023, 1024, UINT32_MAX };
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		g_autoptr(GError) error = NULL;
		struct fixture f;
		begin(&f, 12, MIB, 2);
		const struct vms_file_source below = put_below(&f, 1000);
		fake_disk_put(f.file, 200, "base.img", 8);
		fake_disk_put_be(f.file, BACKING_AT, 8, 200);
		fake_disk_put_be(f.file, BACKING_SIZE, 4, sizes[i]);
		g_autofree char *name = vms_qcow2_backing(&f.file->source);
		g_assert_true((name == NULL) == (sizes[i] > 1023));
		g_assert_false(try_open(&f, NULL, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
		open_image(&f, &below);
		fake_disk_check(&f.disk, 0, 1000, f.below->bytes);
		finish(&f);
	}
}

/* ---- compressed clusters ---------------------------------------------------- */

/* Content that becomes about half as long. */
static void fill_text(uint8_t *bytes, size_t size, unsigned seed)
{
	fake_content(bytes, size, seed);
	for (size_t i = 0; i < size; i++)
		bytes[i] &= 15;
}

/* As QEMU does it: without a header, with a window of 4 KiB. */
static size_t compress_zlib(const uint8_t *bytes, size_t size, uint8_t *packed, size_t most)
{
	z_stream stream = { .next_in = (uint8_t *)bytes,
			    .avail_in = (uInt)size,
			    .next_out = packed,
			    .avail_out = (uInt)most };
	g_assert_cmpint(deflateInit2(&stream, 9, Z_DEFLATED, -12, 9, Z_DEFAULT_STRATEGY), ==, Z_OK);
	g_assert_cmpint(deflate(&stream, Z_FINISH), ==, Z_STREAM_END);
	deflateEnd(&stream);
	return most - stream.avail_out;
}

static size_t compress_zstd(const uint8_t *bytes, size_t size, uint8_t *packed, size_t most)
{
	/* In two frames, which is allowed. */
	const size_t first = ZSTD_compress(packed, most, bytes, size / 3, 3);
	const size_t rest =
		ZSTD_compress(packed + first, most - first, bytes + size / 3, size - size / 3, 3);
	g_assert_false(ZSTD_isError(first) || ZSTD_isError(rest));
	return first + rest;
}

typedef size_t (*compressor)(const uint8_t *bytes, size_t size, uint8_t *packed, size_t most);

/* What tells of a compressed cluster of the file, which ends with the sector that `end` is in. */
static uint64_t compressed_entry(const struct fixture *f, uint64_t at, uint64_t end)
{
	const unsigned bits = 62 - (f->bits - 8);
	return IS_COMPRESSED | ((end - 1) / 512 - at / 512) << bits | at;
}

/* Puts compressed clusters one behind the other, as QEMU does, without regard to sectors. */
static void put_compressed(struct fixture *f, compressor compress, unsigned n, uint8_t *contents)
{
	uint64_t at = f->end + 13;
	for (unsigned i = 0; i < n; i++) {
		uint8_t *content = contents + i * cluster_size(f);
		fill_text(content, cluster_size(f), i);
		const size_t size = compress(content, cluster_size(f), f->file->bytes + at,
					     f->file->source.size - at);
		put_entry(f, i * cluster_size(f), compressed_entry(f, at, at + size));
		at += size;
	}
	f->file->source.size = at; /* it does not end with a sector */
}

static void check_compressed(unsigned bits, compressor compress, unsigned type)
{
	enum { N = 9 }; /* more than are kept */
	g_autofree uint8_t *contents = g_malloc(N << bits);
	struct fixture f;
	begin(&f, bits, N << bits, 16);
	fake_disk_put_be(f.file, FEATURES, 8, type ? 8 : 0);
	fake_disk_put_be(f.file, COMPRESSION, 1, type);
	put_entry(&f, 0, 0); /* so that the table lies before them */
	put_compressed(&f, compress, N, contents);
	open_image(&f, NULL);
	fake_disk_check(&f.disk, 0, N << bits, contents);
	finish(&f);
}

static void test_compressed(void)
{
	for (unsigned bits = 10; bits <= 17; bits++) {
		check_compressed(bits, compress_zlib, 0);
		check_compressed(bits, compress_zstd, 1);
	}
}

/* One that is damaged cannot be read; those around it can. */
static void check_damaged(compressor compress, unsigned type, unsigned damage)
{
	enum { BITS = 16, SIZE = 1 << BITS, N = 3 };
	g_autofree uint8_t *contents = g_malloc(N * SIZE), *bytes = g_malloc(SIZE);
	struct fixture f;
	begin(&f, BITS, N * SIZE, 16);
	fake_disk_put_be(f.file, FEATURES, 8, type ? 8 : 0);
	fake_disk_put_be(f.file, COMPRESSION, 1, type);
	put_entry(&f, 0, 0);
	put_compressed(&f, compress, N, contents);
	const uint64_t at = f.end; /* behind the tables: something is written over the second */
	uint64_t entry;
	memcpy(&entry, f.file->bytes + 2 * SIZE + 8, sizeof(entry));
	entry = GUINT64_FROM_BE(entry);
	const uint64_t place = entry & ((UINT64_C(1) << 54) - 1);
	g_assert_cmpuint(place, >, at);
	switch (damage) {
	case 0: memset(f.file->bytes + place, 0xff, 100); break; /* no data of that kind */
	case 1: put_entry(&f, SIZE, compressed_entry(&f, place, place + 1)); break; /* cut */
	case 2: put_entry(&f, SIZE, compressed_entry(&f, UINT64_C(1) << 50, 512)); break;
	case 3: /* it is less than a cluster */
		compress(contents, SIZE - 1, f.file->bytes + place, SIZE);
		f.file->source.size = 16 * SIZE;
		put_entry(&f, 2 * SIZE, ZEROS); /* it was written over */
		memset(contents + 2 * SIZE, 0, SIZE);
		put_entry(&f, SIZE, compressed_entry(&f, place, place + SIZE));
		break;
	}
	open_image(&f, NULL);
	g_assert_false(vms_file_source_read(&f.disk, SIZE, bytes, 1));
	g_assert_false(vms_file_source_read(&f.disk, SIZE, bytes, SIZE));
	fake_disk_check(&f.disk, 0, SIZE, contents);
	fake_disk_check(&f.disk, 2 * SIZE, 3 * SIZE, contents + 2 * SIZE);
	/* It does not take the place of others, among those that are kept. */
	for (unsigned i = 0; i < 12; i++) {
		g_assert_false(vms_file_source_read(&f.disk, 2 * SIZE - 1, bytes, 2));
		fake_disk_check(&f.disk, 0, 100, contents);
	}
	finish(&f);
}

static void test_damaged_compressed(void)
{
	for (unsigned damage = 0; damage < 4; damage++) {
		check_damaged(compress_zlib, 0, damage);
		check_damaged(compress_zstd, 1, damage);
	}
}

/* The offset of a compressed cluster has as many bits as the number of its sectors leaves it. */
static void test_far_compressed(void)
{
	enum { BITS = 16, SIZE = 1 << BITS };
	g_autofree uint8_t *content = g_malloc(SIZE);
	struct fixture f;
	begin(&f, BITS, SIZE, 8);
	put_entry(&f, 0, 0);
	fill_text(content, SIZE, 1);
	f.file->far_place = f.end;
	f.file->far_begin = UINT64_C(1) << 53;
	const size_t size = compress_zlib(content, SIZE, f.file->bytes + f.end, SIZE);
	put_entry(&f, 0, compressed_entry(&f, f.file->far_begin, f.file->far_begin + size));
	f.file->source.size = f.file->far_begin + SIZE;
	open_image(&f, NULL);
	fake_disk_check(&f.disk, 0, SIZE, content);
	finish(&f);
}

/* What follows the end of a compressed cluster means nothing, as the size counts sectors. */
static void test_bytes_behind(void)
{
	enum { BITS = 12, SIZE = 1 << BITS };
	uint8_t content[SIZE];
	struct fixture f;
	begin(&f, BITS, SIZE, 8);
	put_entry(&f, 0, 0);
	memset(f.file->bytes + f.end, 0xee, 3 * SIZE);
	fill_text(content, SIZE, 1);
	const size_t size = compress_zlib(content, SIZE, f.file->bytes + f.end, SIZE);
	put_entry(&f, 0, compressed_entry(&f, f.end, f.end + size + 600));
	open_image(&f, NULL);
	fake_disk_check(&f.disk, 0, SIZE, content);
	finish(&f);
}

/* ---- damaged and unknown images ---------------------------------------------- */

static void test_headers(void)
{
	static const struct {
		unsigned at, size;
		uint64_t value;
		int code; /* enum vms_error; 0: it can be opened */
	} cases[] = {
		{ 0, 4, 0, VMS_ERROR_MALFORMED },
		{ VERSION, 4, 1, VMS_ERROR_UNSUPPORTED },
		{ VERSION, 4, 2, 0 },
		{ VERSION, 4, 4, VMS_ERROR_UNSUPPORTED },
		{ CLUSTER_BITS, 4, 8, VMS_ERROR_MALFORMED },
		{ CLUSTER_BITS, 4, 9, 0 },
		{ CLUSTER_BITS, 4, 21, 0 },
		{ CLUSTER_BITS, 4, 22, VMS_ERROR_MALFORMED },
		{ CLUSTER_BITS, 4, UINT32_MAX, VMS_ERROR_MALFORMED },
		{ DISK_SIZE, 8, INT64_MAX, 0 },
		{ DISK_SIZE, 8, UINT64_C(1) << 63, VMS_ERROR_MALFORMED },
		{ ENCRYPTION, 4, 1, VMS_ERROR_UNSUPPORTED },
		{ ENCRYPTION, 4, 2, VMS_ERROR_UNSUPPORTED },
		{ N_L1, 4, 4 << 20, 0 },
		{ N_L1, 4, (4 << 20) + 1, VMS_ERROR_MALFORMED },
		{ L1_AT, 8, 2 << 12, 0 },
		{ L1_AT, 8, (2 << 12) + 1, VMS_ERROR_MALFORMED },
		{ FEATURES, 8, 1 | 2, 0 },		    /* dirty, corrupt */
		{ FEATURES, 8, 4, VMS_ERROR_UNSUPPORTED },  /* another file has its data */
		{ FEATURES, 8, 16, VMS_ERROR_UNSUPPORTED }, /* subclusters */
		{ FEATURES, 8, 32, VMS_ERROR_UNSUPPORTED }, /* not known */
		{ FEATURES, 8, UINT64_C(1) << 63, VMS_ERROR_UNSUPPORTED },
		{ COMPRESSION, 1, 2, 0 }, /* without the feature it is something else */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct fixture f;
		g_autoptr(GError) error = NULL;
		begin(&f, 12, MIB, 2);
		fake_disk_put_be(f.file, cases[i].at, cases[i].size, cases[i].value);
		g_assert_true(try_open(&f, NULL, &error) == !cases[i].code);
		if (cases[i].code)
			g_assert_error(error, VMS_ERROR, cases[i].code);
		g_assert_true(vms_qcow2_is_image(&f.file->source) == (cases[i].at != 0));
		finish(&f);
	}
}

/* Features are those of version 3: older images have other things there. */
static void test_older_version(void)
{
	struct fixture f;
	uint8_t expected[4096];
	begin(&f, 12, MIB, 4);
	fake_disk_put_be(f.file, VERSION, 4, 2);
	fake_disk_put_be(f.file, FEATURES, 8, UINT64_MAX);
	fake_disk_put_be(f.file, COMPRESSION, 1, 1);
	put_entry(&f, 0, 0);
	put_compressed(&f, compress_zlib, 1, expected);
	open_image(&f, NULL);
	fake_disk_check(&f.disk, 0, sizeof(expected), expected);
	finish(&f);
}

static void test_unknown_compression(void)
{
	struct fixture f;
	g_autoptr(GError) error = NULL;
	begin(&f, 12, MIB, 2);
	fake_disk_put_be(f.file, FEATURES, 8, 8);
	fake_disk_put_be(f.file, COMPRESSION, 1, 2);
	g_assert_false(try_open(&f, NULL, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	finish(&f);
}

static void test_no_image(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(1024);
	for (disk->source.size = 0; disk->source.size < 200; disk->source.size++) {
		g_assert_false(vms_qcow2_is_image(&disk->source));
		g_assert_null(vms_qcow2_backing(&disk->source));
	}
	fake_disk_put(disk, 0, "QFI\xfb", 4);
	disk->source.size = 3;
	g_assert_false(vms_qcow2_is_image(&disk->source));
	disk->source.size = 4;
	g_assert_true(vms_qcow2_is_image(&disk->source));
}

/* Tables and clusters that lie behind the end of the file: what is elsewhere can be read. */
static void test_outside(void)
{
	enum { BITS = 9, SIZE = 1 << BITS };
	static const uint8_t zeros[SIZE];
	const uint64_t covered = UINT64_C(1) << (2 * BITS - 3);
	uint8_t bytes[SIZE];
	struct fixture f;
	begin(&f, BITS, 80 * covered, 6);
	put_entry(&f, SIZE, COPIED | UINT64_C(1) << 40);
	put_entry(&f, 2 * SIZE, 6 * SIZE);
	put_entry(&f, 3 * SIZE, 5 * SIZE);
	fake_disk_put_be(f.file, SIZE + 8, 8, COPIED | UINT64_C(1) << 40); /* the second table */
	open_image(&f, NULL);
	g_assert_true(vms_file_source_read(&f.disk, 0, bytes, SIZE));
	g_assert_false(vms_file_source_read(&f.disk, SIZE, bytes, 1));
	g_assert_false(vms_file_source_read(&f.disk, SIZE - 1, bytes, 2));
	g_assert_false(vms_file_source_read(&f.disk, 2 * SIZE, bytes, 1));
	g_assert_true(vms_file_source_read(&f.disk, 3 * SIZE, bytes, SIZE));
	g_assert_false(vms_file_source_read(&f.disk, covered, bytes, 1));
	fake_disk_check(&f.disk, 2 * covered, 2 * covered + SIZE, zeros);
	/* The first table itself, whose last entries are not in the file. */
	fake_disk_put_be(f.file, L1_AT, 8, 5 * SIZE);
	vms_file_source_clear(&f.disk);
	open_image(&f, NULL);
	g_assert_true(vms_file_source_read(&f.disk, 63 * covered, bytes, 1));
	g_assert_false(vms_file_source_read(&f.disk, 64 * covered, bytes, 1));
	finish(&f);
}

/* ---- budgets ------------------------------------------------------------------- */

/* What is kept is paid for, and given back at the end; without it there is no table to look in. */
static void test_memory(void)
{
	enum { BITS = 12, SIZE = 1 << BITS, N = 6 };
	for (uint64_t kept = 0; kept <= 3; kept++) {
		g_autofree uint8_t *contents = g_malloc(N * SIZE);
		g_autoptr(vms_budget) budget =
			fake_disk_budget(1000000, kept ? kept * SIZE + 1 : SIZE - 1);
		struct fixture f;
		uint8_t byte;
		begin(&f, BITS, N * SIZE, 16);
		put_entry(&f, 0, 0);
		put_compressed(&f, compress_zlib, N, contents);
		f.file->source.budget = budget;
		open_image(&f, NULL);
		/* The table takes as much as a cluster; one cluster is enough for all. */
		if (kept >= 2)
			fake_disk_check(&f.disk, 0, N * SIZE, contents);
		else
			g_assert_false(vms_file_source_read(&f.disk, 0, &byte, 1));
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, kept * SIZE);
		finish(&f);
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, 0);
	}
}

/* Reads a disk byte by byte, or as far as its budget goes; how far that is. */
static uint64_t read_all(struct fixture *f, uint64_t steps, uint64_t size, uint64_t distance)
{
	g_autoptr(vms_budget) budget = fake_disk_budget(steps, MIB);
	uint8_t byte;
	uint64_t n = 0;
	f->file->source.budget = budget;
	open_image(f, NULL);
	while (n < size && vms_file_source_read(&f->disk, n * distance % size, &byte, 1))
		n++;
	g_assert_true(n == size || !vms_budget_has_left(budget));
	vms_file_source_clear(&f->disk);
	f->file->source.budget = NULL;
	return n;
}

/* To look for clusters costs, though none is there; and to decompress one costs as much as it is.
 */
static void test_steps(void)
{
	enum { BITS = 16, SIZE = 1 << BITS, N = 8 };
	g_autofree uint8_t *contents = g_malloc(N * SIZE);
	struct fixture f;
	begin(&f, BITS, N * SIZE, 16);
	put_entry(&f, 0, 0);
	const uint64_t empty = read_all(&f, 100000, N * SIZE, 1);
	g_assert_cmpuint(empty, >, 100);
	g_assert_cmpuint(empty, <, 10000);
	put_compressed(&f, compress_zlib, N, contents);
	/* Each time another cluster, which is none of those that are kept. */
	const uint64_t packed = read_all(&f, 1000000, N * SIZE, SIZE);
	g_assert_cmpuint(packed, >, 1);
	g_assert_cmpuint(packed, <, 1000000 / (SIZE / 8));
	finish(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/qcow2/clusters", test_clusters);
	g_test_add_func("/qcow2/empty", test_empty);
	g_test_add_func("/qcow2/many-tables", test_many_tables);
	g_test_add_func("/qcow2/lost-table", test_lost_table);
	g_test_add_func("/qcow2/kept-table", test_kept_table);
	g_test_add_func("/qcow2/below", test_below);
	g_test_add_func("/qcow2/below/ownership", test_ownership);
	g_test_add_func("/qcow2/below/name", test_name_of_below);
	g_test_add_func("/qcow2/below/lacking", test_lacks_below);
	g_test_add_func("/qcow2/compressed", test_compressed);
	g_test_add_func("/qcow2/compressed/damaged", test_damaged_compressed);
	g_test_add_func("/qcow2/compressed/far", test_far_compressed);
	g_test_add_func("/qcow2/compressed/bytes-behind", test_bytes_behind);
	g_test_add_func("/qcow2/headers", test_headers);
	g_test_add_func("/qcow2/older-version", test_older_version);
	g_test_add_func("/qcow2/unknown-compression", test_unknown_compression);
	g_test_add_func("/qcow2/no-image", test_no_image);
	g_test_add_func("/qcow2/outside", test_outside);
	g_test_add_func("/qcow2/budget/memory", test_memory);
	g_test_add_func("/qcow2/budget/steps", test_steps);
	return g_test_run();
}
