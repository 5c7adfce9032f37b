/* SPDX-License-Identifier: MIT */
/* Files of an encoder of the tests' own, read as machines; and damaged in every place. */
#include "kdump_encoder.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>
#include <vmscope/core.h>

#define DEFAULTS                                                                                   \
	.version = 6, .block_size = 4096, .status = KDUMP_ZLIB, .machine = "x86_64", .n_cpus = 1

static char *write_file(const GByteArray *bytes)
{
	char *path = NULL;
	int fd = g_file_open_tmp("kdump-XXXXXX", &path, NULL);
	g_assert_cmpint(write(fd, bytes->data, bytes->len), ==, bytes->len);
	close(fd);
	return path;
}

static struct vms_machine *open_bytes(const GByteArray *bytes, GError **error)
{
	g_autofree char *path = write_file(bytes);
	struct vms_machine *machine = vms_machine_open_core(path, error);
	g_unlink(path);
	return machine;
}

/* One that must be good. */
static struct vms_machine *open_spec(const struct kdump_spec *spec)
{
	struct kdump_places places;
	g_autoptr(GByteArray) bytes = kdump_encode(spec, &places);
	g_autoptr(GError) error = NULL;
	struct vms_machine *machine = open_bytes(bytes, &error);
	g_assert_no_error(error);
	return machine;
}

static void assert_refused(const GByteArray *bytes, enum vms_error code, const char *part)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = open_bytes(bytes, &error);
	g_assert_null(machine);
	g_assert_error(error, VMS_ERROR, (int)code);
	g_assert_nonnull(strstr(error->message, part));
}

static void assert_damage(struct vms_machine *machine, const char *part)
{
	const GPtrArray *damage = vms_machine_core(machine)->damage;
	for (unsigned i = 0; i < damage->len; i++) {
		if (strstr(damage->pdata[i], part))
			return;
	}
	g_error("no damage with \"%s\" in %u lines", part, damage->len);
}

static bool reads_page(struct vms_machine *machine, const struct kdump_spec *spec, uint64_t pfn)
{
	size_t size = spec->block_size;
	g_autofree uint8_t *expected = g_malloc(size), *found = g_malloc(size);
	if (!vms_machine_read_phys(machine, pfn * size, found, size))
		return false;
	kdump_page(spec->pages[pfn], pfn, expected, size);
	g_assert_cmpmem(found, size, expected, size);
	return true;
}

static void assert_pages(struct vms_machine *machine, const struct kdump_spec *spec)
{
	for (uint64_t pfn = 0; pfn < strlen(spec->pages); pfn++)
		g_assert_true(reads_page(machine, spec, pfn) == (spec->pages[pfn] != ' '));
	g_assert_false(reads_page(machine, spec, strlen(spec->pages)));
}

/* ---- good files ------------------------------------------------------- */

static void test_compressions(void)
{
	static const struct {
		uint32_t flag;
		const char *variant;
	} compressions[] = { { KDUMP_RAW, "makedumpfile, uncompressed" },
			     { KDUMP_ZLIB, "makedumpfile, zlib" },
			     { KDUMP_LZO, "makedumpfile, lzo" },
			     { KDUMP_SNAPPY, "makedumpfile, snappy" },
			     { KDUMP_ZSTD, "makedumpfile, zstd" } };
	for (unsigned i = 0; i < G_N_ELEMENTS(compressions); i++) {
		for (uint32_t block = 4096; block <= 65536; block *= 4) {
			struct kdump_spec spec = { DEFAULTS, .pages = "ttz n-  -tnz" };
			spec.block_size = block;
			spec.status = compressions[i].flag;
			g_autoptr(vms_machine) machine = open_spec(&spec);
			const struct vms_core *core = vms_machine_core(machine);
			assert_pages(machine, &spec);
			g_assert_cmpint(core->format, ==, VMS_CORE_KDUMP);
			g_assert_cmpstr(core->variant, ==, compressions[i].variant);
			g_assert_cmpuint(core->pages, ==, 7);
			g_assert_cmpuint(core->left_out, ==, 2 * block);
			g_assert_cmpuint(core->damage->len, ==, 0);
		}
	}
}

static void test_versions(void)
{
	for (uint32_t version = 1; version <= 6; version++) {
		struct kdump_spec spec = { DEFAULTS, .pages = " tt-z" };
		spec.version = version;
		spec.n_cpus = version >= 4 ? 2 : 0;
		spec.vmcoreinfo = "OSRELEASE=6.1.0-test\nPAGESIZE=4096\n";
		g_autoptr(vms_machine) machine = open_spec(&spec);
		assert_pages(machine, &spec);
		g_assert_cmpstr(vms_machine_vmcoreinfo(machine), ==,
				version >= 3 ? spec.vmcoreinfo : NULL);
		g_assert_cmpuint(vms_machine_vcpus(machine), ==, MAX(spec.n_cpus, 1));
		if (version >= 4)
			g_assert_cmpuint(vms_machine_core(machine)->damage->len, ==, 0);
		else
			assert_damage(machine, "no registers");
	}
}

static void test_vcpus(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tt" };
	struct vms_regs regs;
	spec.n_cpus = 3;
	g_autoptr(vms_machine) machine = open_spec(&spec);

	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 3);
	g_assert_true(vms_machine_hold(machine, VMS_ALL_VCPUS, NULL));
	g_assert_true(vms_machine_regs(machine, 2, &regs, NULL));
	g_assert_cmphex(regs.value[vms_machine_arch(machine)->pc], ==, 0x1002);
}

/* QEMU calls every machine "Unknown". */
static void test_unknown_machine(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tt" };
	spec.machine = "Unknown";
	g_autoptr(vms_machine) machine = open_spec(&spec);
	g_assert_cmpstr(vms_machine_arch(machine)->name, ==, "x86_64");
}

static void test_facts(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tt" };
	g_autoptr(vms_machine) machine = open_spec(&spec);
	GPtrArray *facts = vms_machine_core(machine)->facts;

	g_assert_true(g_ptr_array_find_with_equal_func(facts, "status=zlib", g_str_equal, NULL));
	g_assert_true(
		g_ptr_array_find_with_equal_func(facts, "nodename=host?[31m", g_str_equal, NULL));
	g_assert_true(
		g_ptr_array_find_with_equal_func(facts, "release=6.1.0-test", g_str_equal, NULL));
}

static void test_ranges(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "ttz n-  -tnz" };
	g_autoptr(vms_machine) machine = open_spec(&spec);
	static const uint64_t expected[][2] = { { 0, 3 }, { 4, 6 }, { 8, 12 } };
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);

	g_assert_cmpuint(n, ==, G_N_ELEMENTS(expected));
	for (size_t i = 0; i < n; i++) {
		g_assert_cmphex(ranges[i].pa, ==, expected[i][0] * 4096);
		g_assert_cmphex(ranges[i].pa + ranges[i].size, ==, expected[i][1] * 4096);
		g_assert_cmpint(ranges[i].kind, ==, VMS_RANGE_RAM);
	}
}

static void test_reads_across_pages(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tn- t" };
	g_autoptr(vms_machine) machine = open_spec(&spec);
	uint8_t expected[3 * 4096] = { 0 }, found[3 * 4096];

	kdump_page('t', 0, expected, 4096);
	kdump_page('n', 1, expected + 4096, 4096);
	g_assert_true(vms_machine_read_phys(machine, 100, found, 3 * 4096 - 100));
	g_assert_cmpmem(found, 3 * 4096 - 100, expected + 100, 3 * 4096 - 100);
	g_assert_false(vms_machine_read_phys(machine, 3 * 4096 - 1, found, 2));
	g_assert_false(vms_machine_read_phys(machine, G_MAXUINT64 - 1, found, 2));
}

static void assert_next(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t begin,
			uint64_t stop)
{
	uint64_t found_begin, found_stop;
	g_assert_true(vms_machine_next_data(machine, pa, end, &found_begin, &found_stop));
	g_assert_cmphex(found_begin, ==, begin);
	g_assert_cmphex(found_stop, ==, stop);
}

static void test_next_data(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "--tn--t-" };
	g_autoptr(vms_machine) machine = open_spec(&spec);
	uint64_t begin, stop;

	assert_next(machine, 0, 0x8000, 0x2000, 0x4000);
	assert_next(machine, 0x2100, 0x2200, 0x2100, 0x2200);
	assert_next(machine, 0x3800, 0x8000, 0x3800, 0x4000);
	assert_next(machine, 0x4000, 0x6800, 0x6000, 0x6800);
	g_assert_false(vms_machine_next_data(machine, 0x7000, 0x8000, &begin, &stop));
	g_assert_false(vms_machine_next_data(machine, 0, 0x1fff, &begin, &stop));
	g_assert_false(vms_machine_next_data(machine, 1 << 20, 2 << 20, &begin, &stop));
}

/* Page numbers that need every part of the way from bitmap to descriptor. */
static void test_many_pages(void)
{
	g_autofree char *pages = g_malloc(30001);
	for (unsigned pfn = 0; pfn < 30000; pfn++)
		pages[pfn] = "t- zt"[pfn * 7919 / 64 % 5];
	pages[30000] = 0;
	struct kdump_spec spec = { DEFAULTS, .pages = pages };
	spec.status = KDUMP_LZO;
	g_autoptr(vms_machine) machine = open_spec(&spec);
	assert_pages(machine, &spec);
}

/* 1 TiB of which three pages are there: the file has two bitmaps of 32 MiB, mostly holes. */
static void test_huge_machine(void)
{
	static const uint64_t pfns[] = { 5, 0x0ffffffd, 0x0fffffff };
	struct kdump_spec spec = { DEFAULTS, .pages = "nnn" };
	struct kdump_places places;
	g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
	uint64_t bitmap = UINT64_C(32) << 20, data = places.bitmaps + 2 * bitmap;
	g_autofree char *path = NULL;
	int fd = g_file_open_tmp("kdump-XXXXXX", &path, NULL);
	uint8_t page[4096], expected[4096];

	kdump_put32(bytes, 436, (uint32_t)(2 * bitmap / 4096));
	kdump_put64(bytes, 4096 + 96, 0x10000000);
	for (unsigned i = 0; i < 3; i++)
		kdump_put64(bytes, places.descriptors + UINT64_C(24) * i,
			    data + 72 + UINT64_C(4096) * i);
	g_assert_cmpint(pwrite(fd, bytes->data, places.bitmaps, 0), ==, places.bitmaps);
	g_assert_cmpint(pwrite(fd, bytes->data + places.descriptors, 72 + 3 * 4096, (off_t)data),
			==, 72 + 3 * 4096);
	for (unsigned i = 0; i < 6; i++) {
		uint64_t at = places.bitmaps + i % 2 * bitmap + pfns[i / 2] / 8;
		uint8_t bits = 0;
		g_assert_cmpint(pread(fd, &bits, 1, (off_t)at), ==, 1);
		bits |= (uint8_t)(1U << pfns[i / 2] % 8);
		g_assert_cmpint(pwrite(fd, &bits, 1, (off_t)at), ==, 1);
	}
	close(fd);

	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = vms_machine_open_core(path, &error);
	g_unlink(path);
	g_assert_no_error(error);
	size_t n;
	vms_machine_ranges(machine, &n);
	g_assert_cmpuint(n, ==, 3);
	for (unsigned i = 0; i < 3; i++) {
		kdump_page('n', i, expected, sizeof(expected));
		g_assert_true(vms_machine_read_phys(machine, pfns[i] * 4096, page, sizeof(page)));
		g_assert_cmpmem(page, sizeof(page), expected, sizeof(expected));
	}
	assert_next(machine, 6 * 4096, UINT64_C(1) << 40, pfns[1] * 4096, (pfns[1] + 1) * 4096);
	g_assert_false(vms_machine_read_phys(machine, 6 * 4096, page, 1));
}

struct reader {
	struct vms_machine *machine;
	const struct kdump_spec *spec;
	unsigned seed;
};

static void *read_pages(void *data)
{
	const struct reader *reader = data;
	GRand *rand = g_rand_new_with_seed(reader->seed);
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t pfn = (uint64_t)g_rand_int_range(rand, 0, 600);
		g_assert_true(reads_page(reader->machine, reader->spec, pfn));
	}
	g_rand_free(rand);
	return NULL;
}

/* More pages than are kept decompressed, read by several threads at once. */
static void test_threads(void)
{
	g_autofree char *pages = g_strnfill(600, 't');
	struct kdump_spec spec = { DEFAULTS, .pages = pages };
	spec.status = KDUMP_ZSTD;
	g_autoptr(vms_machine) machine = open_spec(&spec);
	struct reader readers[4];
	GThread *threads[4];

	for (unsigned i = 0; i < 4; i++) {
		readers[i] = (struct reader) { machine, &spec, i };
		threads[i] = g_thread_new("reader", read_pages, &readers[i]);
	}
	for (unsigned i = 0; i < 4; i++)
		g_thread_join(threads[i]);
}

/* ---- bad files -------------------------------------------------------- */

static void test_headers(void)
{
	static const struct {
		uint64_t offset;
		uint32_t value;
		enum vms_error code;
		const char *part;
	} faults[] = {
		{ 8, 0, VMS_ERROR_UNSUPPORTED, "version 0" },
		{ 8, 7, VMS_ERROR_UNSUPPORTED, "version 7" },
		{ 8, 0x06000000, VMS_ERROR_UNSUPPORTED, "version" },
		{ 428, 0, VMS_ERROR_MALFORMED, "block size of 0" },
		{ 428, 2048, VMS_ERROR_MALFORMED, "block size of 2048" },
		{ 428, 4097, VMS_ERROR_MALFORMED, "block size of 4097" },
		{ 428, 1 << 17, VMS_ERROR_MALFORMED, "block size of 131072" },
		{ 432, 0xffffffff, VMS_ERROR_MALFORMED, "bitmaps" },
		{ 436, 0, VMS_ERROR_MALFORMED, "bitmaps" },
		{ 436, 0xffffffff, VMS_ERROR_MALFORMED, "bitmaps" },
		{ 4096 + 12, 1, VMS_ERROR_UNSUPPORTED, "split" },
		{ 4096 + 96, 0x7fffffff, VMS_ERROR_MALFORMED, "bitmaps" },
		{ 4096 + 100, 0xffffffff, VMS_ERROR_UNSUPPORTED, "page frames" },
	};
	for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++) {
		struct kdump_spec spec = { DEFAULTS, .pages = "tt" };
		struct kdump_places places;
		g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
		kdump_put32(bytes, faults[i].offset, faults[i].value);
		assert_refused(bytes, faults[i].code, faults[i].part);
	}
}

static void test_other_machines(void)
{
	static const char *const names[] = { "ppc64le", "", "Unknown", "x86_6\033" };
	for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
		struct kdump_spec spec = { DEFAULTS, .pages = "tt" };
		struct kdump_places places;
		spec.machine = names[i];
		spec.n_cpus = 0;
		g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
		assert_refused(bytes, VMS_ERROR_UNSUPPORTED, "architecture");
	}
}

static void test_diskdump(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tt" };
	struct kdump_places places;
	g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
	memcpy(bytes->data, "DISKDUMP", 8);
	assert_refused(bytes, VMS_ERROR_UNSUPPORTED, "diskdump");
}

/* Cut off anywhere: an error, or a machine whose other pages are right. */
static void test_truncated(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tnt ntz-n" };
	struct kdump_places places;
	g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
	uint64_t whole = bytes->len;

	for (uint64_t size = whole - 1; size > 8; size -= MIN(size, 509)) {
		g_autoptr(GError) error = NULL;
		g_byte_array_set_size(bytes, (guint)size);
		g_autoptr(vms_machine) machine = open_bytes(bytes, &error);
		if (!machine) {
			g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
			g_assert_cmpuint(size, <, places.descriptors);
			continue;
		}
		g_assert_cmpuint(size, >=, places.descriptors);
		assert_damage(machine, "cannot be read");
		g_assert_true(reads_page(machine, &spec, 7));
		g_assert_false(reads_page(machine, &spec, 8));
	}
}

static void test_bad_pages(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tttttttttn" };
	struct kdump_places places;
	g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
	uint64_t at = places.descriptors;
	g_autoptr(GError) error = NULL;

	kdump_put64(bytes, at, 0);			  /* never written */
	kdump_put64(bytes, at + 24, G_MAXUINT64 - 1);	  /* beyond everything */
	kdump_put64(bytes, at + 24 * 2, bytes->len - 10); /* ends behind the file */
	kdump_put32(bytes, at + 24 * 3 + 8, G_MAXUINT32); /* larger than a page */
	kdump_put32(bytes, at + 24 * 4 + 8, 0);		  /* nothing */
	kdump_put32(bytes, at + 24 * 5 + 8, 20);	  /* too little */
	kdump_put32(bytes, at + 24 * 6 + 12, KDUMP_ZSTD); /* not what it is */
	kdump_put32(bytes, at + 24 * 7 + 12, KDUMP_LZO | KDUMP_ZLIB);
	kdump_put32(bytes, at + 24 * 8 + 12, KDUMP_RAW); /* less than a page */
	g_autoptr(vms_machine) machine = open_bytes(bytes, &error);
	g_assert_no_error(error);
	for (uint64_t pfn = 0; pfn < 9; pfn++)
		g_assert_false(reads_page(machine, &spec, pfn));
	g_assert_true(reads_page(machine, &spec, 9));
	assert_damage(machine, "4 of its last 10 pages");
}

/* A page that decompresses to more or less than a page. */
static void test_wrong_sizes(void)
{
	static const uint32_t flags[] = { KDUMP_ZLIB, KDUMP_LZO, KDUMP_SNAPPY, KDUMP_ZSTD };
	for (unsigned i = 0; i < 2 * G_N_ELEMENTS(flags); i++) {
		struct kdump_spec spec = { DEFAULTS, .pages = "t" };
		struct kdump_spec other = { DEFAULTS, .pages = "t" };
		struct kdump_places places, other_places;
		spec.status = other.status = flags[i / 2];
		spec.block_size = i % 2 ? 4096 : 16384;
		other.block_size = i % 2 ? 16384 : 4096;
		g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
		g_autoptr(GByteArray) page = kdump_encode(&other, &other_places);
		g_autoptr(GError) error = NULL;
		g_byte_array_append(bytes, page->data + other_places.data,
				    page->len - (guint)other_places.data);
		kdump_put64(bytes, places.descriptors,
			    bytes->len - (page->len - other_places.data));
		kdump_put32(bytes, places.descriptors + 8,
			    (uint32_t)(page->len - other_places.data));
		g_autoptr(vms_machine) machine = open_bytes(bytes, &error);
		g_assert_no_error(error);
		g_assert_false(reads_page(machine, &spec, 0));
	}
}

static void test_bitmaps_that_lie(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tt  " };
	struct kdump_places places;
	g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
	g_autoptr(GError) error = NULL;

	/* More pages than there are descriptors, and more than there is memory. */
	memset(bytes->data + places.bitmaps + places.bitmap_size, 0xff, places.bitmap_size);
	g_byte_array_set_size(bytes, (guint)places.data);
	g_autoptr(vms_machine) machine = open_bytes(bytes, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(vms_machine_core(machine)->pages, ==, 4);
	assert_damage(machine, "not in its bitmap of memory");
	assert_damage(machine, "2 of 4 pages cannot be read");
	for (uint64_t pfn = 0; pfn < 4; pfn++)
		g_assert_false(reads_page(machine, &spec, pfn));
}

static void test_too_many_ranges(void)
{
	g_autofree char *pages = g_malloc0(2200001);
	for (unsigned pfn = 0; pfn < 2200000; pfn++)
		pages[pfn] = pfn % 2 ? ' ' : '-';
	struct kdump_spec spec = { DEFAULTS, .pages = pages };
	g_autoptr(vms_machine) machine = open_spec(&spec);
	size_t n;

	vms_machine_ranges(machine, &n);
	g_assert_cmpuint(n, ==, 1048576);
	assert_damage(machine, "1100000 ranges");
	g_assert_true(reads_page(machine, &spec, 2199998));
}

static void test_incomplete(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tt" };
	spec.status |= KDUMP_INCOMPLETE;
	g_autoptr(vms_machine) machine = open_spec(&spec);
	assert_damage(machine, "out of disk space");
}

/* Notes and VMCOREINFO beyond the file: the memory can be read without them. */
static void test_bad_notes(void)
{
	struct kdump_spec spec = { DEFAULTS, .pages = "tt", .vmcoreinfo = "A=1\n" };
	static const uint64_t values[] = { G_MAXUINT64, G_MAXUINT64 / 2, UINT64_C(1) << 40 };
	for (unsigned field = 32; field <= 56; field += 8) {
		for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
			struct kdump_places places;
			g_autoptr(GByteArray) bytes = kdump_encode(&spec, &places);
			g_autoptr(GError) error = NULL;
			kdump_put64(bytes, 4096 + field, values[i]);
			g_autoptr(vms_machine) machine = open_bytes(bytes, &error);
			g_assert_no_error(error);
			g_assert_cmpuint(vms_machine_core(machine)->damage->len, >=, 1);
			assert_pages(machine, &spec);
		}
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/core-kdump/compressions", test_compressions);
	g_test_add_func("/core-kdump/versions", test_versions);
	g_test_add_func("/core-kdump/vcpus", test_vcpus);
	g_test_add_func("/core-kdump/unknown-machine", test_unknown_machine);
	g_test_add_func("/core-kdump/facts", test_facts);
	g_test_add_func("/core-kdump/ranges", test_ranges);
	g_test_add_func("/core-kdump/reads-across-pages", test_reads_across_pages);
	g_test_add_func("/core-kdump/next-data", test_next_data);
	g_test_add_func("/core-kdump/many-pages", test_many_pages);
	g_test_add_func("/core-kdump/huge-machine", test_huge_machine);
	g_test_add_func("/core-kdump/threads", test_threads);
	g_test_add_func("/core-kdump/headers", test_headers);
	g_test_add_func("/core-kdump/other-machines", test_other_machines);
	g_test_add_func("/core-kdump/diskdump", test_diskdump);
	g_test_add_func("/core-kdump/truncated", test_truncated);
	g_test_add_func("/core-kdump/bad-pages", test_bad_pages);
	g_test_add_func("/core-kdump/wrong-sizes", test_wrong_sizes);
	g_test_add_func("/core-kdump/bitmaps-that-lie", test_bitmaps_that_lie);
	g_test_add_func("/core-kdump/too-many-ranges", test_too_many_ranges);
	g_test_add_func("/core-kdump/incomplete", test_incomplete);
	g_test_add_func("/core-kdump/bad-notes", test_bad_notes);
	return g_test_run();
}
