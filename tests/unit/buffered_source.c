/* SPDX-License-Identifier: MIT */
/* A buffered source: the same bytes as its source, by fewer reads. */
#include "base/buffered_source.h"
#include <glib.h>
#include <string.h>

#define SIZE	(100 * VMS_FILE_BLOCK + 123)
#define MISSING (3 * VMS_FILE_BLOCK) /* begin of a block that is not there */
#define ROUNDS	20000

struct file {
	uint8_t bytes[SIZE];
	bool is_missing;
	unsigned n_reads;
};

static bool read_file(void *data, uint64_t offset, void *buf, size_t size)
{
	struct file *file = data;
	file->n_reads++;
	if (file->is_missing && offset < MISSING + VMS_FILE_BLOCK && offset + size > MISSING)
		return false;
	memcpy(buf, file->bytes + offset, size);
	return true;
}

static struct file *make_file(bool is_missing, struct vms_file_source *buffered)
{
	struct file *file = g_new0(struct file, 1);
	file->is_missing = is_missing;
	for (size_t i = 0; i < SIZE; i++)
		file->bytes[i] = (uint8_t)g_test_rand_int();
	const struct vms_file_source source = { SIZE, read_file, g_free, file };
	*buffered = vms_file_source_buffered(&source);
	g_assert_cmpuint(buffered->size, ==, SIZE);
	return file;
}

static void test_same_bytes(void)
{
	static uint8_t buf[5 * VMS_FILE_BLOCK], expected[5 * VMS_FILE_BLOCK];
	struct vms_file_source buffered;
	struct file *file = make_file(true, &buffered);
	for (unsigned i = 0; i < ROUNDS; i++) {
		const uint64_t offset = (uint64_t)g_test_rand_int_range(0, SIZE + 10);
		const size_t size = (size_t)g_test_rand_int_range(0, sizeof(buf));
		const bool is_there = offset + size <= SIZE &&
				      (size == 0 || read_file(file, offset, expected, size));
		g_assert_true(vms_file_source_read(&buffered, offset, buf, size) == is_there);
		if (is_there)
			g_assert_cmpmem(buf, size, expected, size);
	}
	vms_file_source_clear(&buffered);
}

static void test_fewer_reads(void)
{
	struct vms_file_source buffered;
	struct file *file = make_file(false, &buffered);
	uint32_t word;
	for (uint64_t at = 0; at + sizeof(word) <= SIZE; at += sizeof(word))
		g_assert_true(vms_file_source_read(&buffered, at, &word, sizeof(word)));
	g_assert_cmpuint(file->n_reads, ==, SIZE / VMS_FILE_BLOCK + 1);
	vms_file_source_clear(&buffered);
}

/* A block that was missing may come later. */
static void test_comes_later(void)
{
	struct vms_file_source buffered;
	struct file *file = make_file(true, &buffered);
	uint8_t byte;
	g_assert_false(vms_file_source_read(&buffered, MISSING + 5, &byte, 1));
	file->is_missing = false;
	g_assert_true(vms_file_source_read(&buffered, MISSING + 5, &byte, 1));
	g_assert_cmphex(byte, ==, file->bytes[MISSING + 5]);
	vms_file_source_clear(&buffered);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/buffered-source/same-bytes", test_same_bytes);
	g_test_add_func("/buffered-source/fewer-reads", test_fewer_reads);
	g_test_add_func("/buffered-source/comes-later", test_comes_later);
	return g_test_run();
}
