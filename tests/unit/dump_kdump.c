/* SPDX-License-Identifier: MIT */
/* kdump files of a machine made of a test's memory, read back by the format's description alone. */
#include "arch/x86_64.h"
#include "fake_guest.h"
#include "fake_machine.h"

#include <glib/gstdio.h>
#include <string.h>
#include <vmscope/dump.h>
#include <zlib.h>
#include <zstd.h>

#define PAGE	   UINT64_C(4096)
#define PAGES	   700 /* of the largest range: more than one unit */
#define BASE	   UINT64_C(0x200000)
#define FAR_PA	   UINT64_C(0x123456000) /* beyond a piece of the bitmaps */
#define VMCOREINFO "OSRELEASE=6.1.0-test\nNUMBER(phys_base)=-490733568\n"

/* ---- a reader of the file --------------------------------------------- */

struct file {
	uint8_t *data;
	size_t size;
};

static uint32_t get32(const struct file *file, uint64_t at)
{
	uint32_t value;
	g_assert_cmpuint(at + 4, <=, file->size);
	memcpy(&value, file->data + at, 4);
	return GUINT32_FROM_LE(value);
}

static uint64_t get64(const struct file *file, uint64_t at)
{
	return get32(file, at) | (uint64_t)get32(file, at + 4) << 32;
}

static uint64_t bitmaps_of(const struct file *file)
{
	return (1 + (uint64_t)get32(file, 432)) * PAGE;
}

static bool has_bit(const struct file *file, unsigned bitmap, uint64_t pfn)
{
	uint64_t size = (uint64_t)get32(file, 436) * PAGE / 2;
	uint64_t at = bitmaps_of(file) + bitmap * size + pfn / 8;
	g_assert_cmpuint(pfn / 8, <, size);
	g_assert_cmpuint(at, <, file->size);
	return file->data[at] >> pfn % 8 & 1;
}

/* Descriptor number `index`, decompressed. Returns where the data lie. */
static uint64_t get_page(const struct file *file, uint64_t index, uint8_t *page)
{
	uint64_t at = bitmaps_of(file) + (uint64_t)get32(file, 436) * PAGE + index * 24;
	uint64_t offset = get64(file, at), size = get32(file, at + 8);
	uint32_t flags = get32(file, at + 12);
	uLongf length = PAGE;

	g_assert_cmpuint(offset + size, <=, file->size);
	g_assert_cmpuint(get64(file, at + 16), ==, 0);
	if (flags == 0) {
		g_assert_cmpuint(size, ==, PAGE);
		memcpy(page, file->data + offset, PAGE);
	} else if (flags == 1) {
		g_assert_cmpint(uncompress(page, &length, file->data + offset, size), ==, Z_OK);
		g_assert_cmpuint(length, ==, PAGE);
	} else {
		g_assert_cmphex(flags, ==, 0x20);
		g_assert_cmpuint(ZSTD_decompress(page, PAGE, file->data + offset, size), ==, PAGE);
	}
	return offset;
}

/* ---- the machine ------------------------------------------------------ */

static void fill(uint8_t *memory, uint64_t size, GRand *rand)
{
	for (uint64_t at = 0; at < size; at++) {
		uint64_t kind = at / PAGE % 3; /* zeros, text, noise */
		memory[at] = kind == 0	 ? 0
			     : kind == 1 ? (uint8_t)("kdump"[at % 5])
					 : (uint8_t)g_rand_int(rand);
	}
}

/*
 * Three ranges, of which two share a page and end in the middle of one, a large one, and one far
 * away.
 */
static const struct {
	uint64_t pa, size;
} ranges[] = {
	{ 0x100000, 0x3000 + 100 }, { 0x103000 + 200, 300 }, { 0x103000 + 1000, 2 * PAGE },
	{ BASE, PAGES *PAGE },	    { FAR_PA, PAGE },
};

static struct vms_machine *make_machine(void)
{
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, 2);
	GRand *rand = g_rand_new_with_seed(1);
	for (unsigned i = 0; i < G_N_ELEMENTS(ranges); i++) {
		uint8_t *memory = fake_machine_add_ram(machine, ranges[i].pa, ranges[i].size);
		fill(memory, ranges[i].size, rand);
		memory[0] = (uint8_t)(i + 1);
	}
	g_rand_free(rand);
	return machine;
}

/* What a page has to be: the machine's memory, zeros where there is none. */
static bool expect_page(struct vms_machine *machine, uint64_t pfn, uint8_t *page)
{
	bool is_memory = false;
	memset(page, 0, PAGE);
	for (unsigned i = 0; i < G_N_ELEMENTS(ranges); i++) {
		uint64_t begin = MAX(ranges[i].pa, pfn * PAGE);
		uint64_t end = MIN(ranges[i].pa + ranges[i].size, pfn * PAGE + PAGE);
		if (begin >= end)
			continue;
		memcpy(page + begin % PAGE, fake_machine_at(machine, begin), end - begin);
		is_memory = true;
	}
	return is_memory;
}

struct dump {
	bool compress_held, released;
	unsigned reads_too_late;
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_dump_result result;
	struct file file;
	char *path;
};

static bool note_release(void *data, GError **error G_GNUC_UNUSED)
{
	((struct dump *)data)->released = true;
	return true;
}

/* What is read when the machine runs is torn. */
static bool note_read(void *data, uint64_t pa G_GNUC_UNUSED, size_t size G_GNUC_UNUSED)
{
	struct dump *dump = data;
	__atomic_fetch_add(&dump->reads_too_late, dump->released, __ATOMIC_RELAXED);
	return true;
}

static void dump_make(struct dump *dump, enum vms_dump_compression compression)
{
	const struct fake_hooks hooks = { .release = note_release,
					  .read = note_read,
					  .data = dump };
	g_autofree char *folder = g_dir_make_tmp("vmscope-kdump-XXXXXX", NULL);
	struct vms_dump_options options = { .size = sizeof(options),
					    .format = VMS_CORE_KDUMP,
					    .compression = compression,
					    .compress_held = dump->compress_held };
	g_autoptr(GError) error = NULL;

	dump->path = g_build_filename(folder, "core", NULL);
	dump->machine = make_machine();
	fake_machine_set_hooks(dump->machine, &hooks);
	dump->guest = fake_guest_new(dump->machine, VMS_GUEST_LINUX);
	fake_guest_set_vmcoreinfo(dump->guest, VMCOREINFO);
	g_autoptr(vms_dump) job =
		vms_dump_start(dump->machine, dump->guest, dump->path, &options, &error);
	g_assert_no_error(error);
	vms_dump_finish(job, &dump->result, &error);
	g_assert_no_error(error);
	g_assert_true(
		g_file_get_contents(dump->path, (char **)&dump->file.data, &dump->file.size, NULL));
	g_assert_cmpuint(dump->reads_too_late, ==, 0);
	g_assert_cmpuint(dump->result.file_size, ==, dump->file.size);
	g_unlink(dump->path);
	g_assert_cmpint(g_rmdir(folder), ==, 0);
}

static void dump_clear(struct dump *dump)
{
	vms_dump_result_clear(&dump->result);
	vms_guest_unref(dump->guest);
	vms_machine_unref(dump->machine);
	g_free(dump->file.data);
	g_free(dump->path);
}

/* ---- tests ------------------------------------------------------------ */

static void check_memory(enum vms_dump_compression compression, bool compress_held)
{
	struct dump dump = { .compress_held = compress_held };
	uint8_t expected[PAGE], found[PAGE];
	uint64_t index = 0, zeros = 0, zero_at = 0;

	dump_make(&dump, compression);
	g_assert_cmphex(get32(&dump.file, 424), ==, compression == VMS_DUMP_ZLIB ? 1 : 0x20);
	g_assert_cmphex(get64(&dump.file, PAGE + 96), ==, FAR_PA / PAGE + 1);
	for (uint64_t pfn = 0; pfn <= FAR_PA / PAGE; pfn++) {
		bool is_memory = expect_page(dump.machine, pfn, expected);
		g_assert_true(has_bit(&dump.file, 0, pfn) == is_memory);
		g_assert_true(has_bit(&dump.file, 1, pfn) == is_memory);
		if (!is_memory)
			continue;
		uint64_t offset = get_page(&dump.file, index++, found);
		g_assert_cmpmem(found, PAGE, expected, PAGE);
		if (expected[0] == 0 && memcmp(expected, expected + 1, PAGE - 1) == 0) {
			g_assert_true(zeros++ == 0 || offset == zero_at);
			zero_at = offset;
		}
	}
	g_assert_cmpuint(index, ==, 3 + 1 + 2 + PAGES + 1);
	g_assert_cmpuint(zeros, >, PAGES / 4);
	dump_clear(&dump);
}

static void test_memory(gconstpointer data)
{
	enum vms_dump_compression compression = (enum vms_dump_compression)GPOINTER_TO_INT(data);
	check_memory(compression, false);
	check_memory(compression, true);
}

static void test_headers(void)
{
	struct dump dump = { 0 };
	const char *text = VMCOREINFO;

	dump_make(&dump, VMS_DUMP_ZSTD);
	const struct file *file = &dump.file;
	g_assert_cmpmem(file->data, 8, "KDUMP   ", 8);
	g_assert_cmpuint(get32(file, 8), ==, 6);
	g_assert_cmpstr((const char *)file->data + 12 + 4 * 65, ==, "x86_64");
	g_assert_cmpuint(get32(file, 428), ==, PAGE);
	g_assert_cmpuint(get32(file, 440), ==, FAR_PA / PAGE + 1);
	g_assert_cmpuint(get32(file, 460), ==, 2);
	g_assert_cmphex(get64(file, PAGE), ==, (uint64_t)INT64_C(-490733568));
	g_assert_cmpuint(get32(file, PAGE + 8), ==, 0);
	g_assert_cmpuint(get32(file, PAGE + 12), ==, 0);

	uint64_t at = get64(file, PAGE + 32);
	g_assert_cmpmem(file->data + at, get64(file, PAGE + 40), text, strlen(text));
	at = get64(file, PAGE + 48);
	g_assert_cmpuint(at + get64(file, PAGE + 56), <=, bitmaps_of(file));
	g_assert_cmpstr((const char *)file->data + at + 12, ==, "VMSCOPE");
	at += 12 + 8 + (get32(file, at + 4) + 3) / 4 * 4; /* header, owner, content */
	g_assert_cmpuint(get32(file, at + 4), ==, 336);
	g_assert_cmpstr((const char *)file->data + at + 12, ==, "CORE");
	dump_clear(&dump);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/dump-kdump/zlib", GINT_TO_POINTER(VMS_DUMP_ZLIB), test_memory);
	g_test_add_data_func("/dump-kdump/zstd", GINT_TO_POINTER(VMS_DUMP_ZSTD), test_memory);
	g_test_add_func("/dump-kdump/headers", test_headers);
	return g_test_run();
}
