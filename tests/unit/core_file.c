/* SPDX-License-Identifier: MIT */
#include "machine/core/core_file.h"
#include "memory_file.h"
#include <sys/stat.h>
#include <unistd.h>

static void test_plain(void)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(memory_file) memory = memory_file_new("0123456789", 10);
	g_autoptr(vms_core_file) file = vms_core_file_open(memory->path, &error);
	char buf[16] = "";
	g_assert_no_error(error);
	g_assert_null(vms_core_file_damage(file));
	g_assert_cmpstr(vms_core_file_path(file), ==, memory->path);
	g_assert_cmpuint(vms_core_file_size(file), ==, 10);
	g_assert_true(vms_core_file_read(file, 3, buf, 7));
	g_assert_cmpstr(buf, ==, "3456789");
	g_assert_true(vms_core_file_read(file, 10, buf, 0));
	g_assert_false(vms_core_file_read(file, 3, buf, 8));
	g_assert_false(vms_core_file_read(file, 11, buf, 0));
	g_assert_false(vms_core_file_read(file, UINT64_MAX, buf, 2));
	g_assert_false(vms_core_file_read(file, 2, buf, SIZE_MAX));
}

static void test_load(void)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(memory_file) memory = memory_file_new("0123456789", 10);
	g_autoptr(vms_core_file) file = vms_core_file_open(memory->path, NULL);
	g_autofree uint8_t *data = vms_core_file_load(file, 2, 4, 4, "digits", &error);
	g_assert_no_error(error);
	g_assert_cmpmem(data, 4, "2345", 4);
	g_assert_null(vms_core_file_load(file, 2, 5, 4, "digits", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	g_assert_nonnull(strstr(error->message, "digits"));
	g_clear_error(&error);
	g_assert_null(vms_core_file_load(file, 8, 3, 4, "digits", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	g_assert_nonnull(strstr(error->message, "0x8"));
	g_clear_error(&error);
	g_assert_null(vms_core_file_load(file, UINT64_MAX - 1, 3, 4, "digits", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
}

static void test_refused(void)
{
	g_autofree char *directory = g_dir_make_tmp("vmscope-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(directory, "file", NULL);
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_core_file_open(path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_clear_error(&error);
	g_assert_null(vms_core_file_open(directory, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	g_clear_error(&error);
	/* Nobody writes into it: an open that waits never returns. */
	g_assert_cmpint(mkfifo(path, 0600), ==, 0);
	g_assert_null(vms_core_file_open(path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	unlink(path);
	rmdir(directory);
}

static void test_holes(void)
{
	g_autoptr(memory_file) memory = memory_file_new(NULL, 0);
	g_autoptr(vms_core_file) file = NULL;
	uint64_t begin, stop, page = (uint64_t)sysconf(_SC_PAGESIZE);
	memory_file_put(memory, 4 * page, "data", 4);
	g_assert_cmpint(ftruncate(memory->fd, (off_t)(16 * page)), ==, 0);
	file = vms_core_file_open(memory->path, NULL);
	vms_core_file_next_data(file, 0, 16 * page, &begin, &stop);
	g_assert_cmpuint(begin, ==, 4 * page);
	g_assert_cmpuint(stop, ==, 5 * page);
	vms_core_file_next_data(file, 0, 4 * page + 2, &begin, &stop);
	g_assert_cmpuint(begin, ==, 4 * page);
	g_assert_cmpuint(stop, ==, 4 * page + 2);
	vms_core_file_next_data(file, 4 * page + 1, 16 * page, &begin, &stop);
	g_assert_cmpuint(begin, ==, 4 * page + 1);
	vms_core_file_next_data(file, 5 * page, 16 * page, &begin, &stop);
	g_assert_cmpuint(begin, ==, stop);
	g_assert_cmpuint(begin, ==, 16 * page);
	vms_core_file_next_data(file, 0, 3 * page, &begin, &stop);
	g_assert_cmpuint(begin, ==, 3 * page);
	g_assert_cmpuint(begin, ==, stop);
}

/* ---- flattened -------------------------------------------------------- */

static void put_be(GByteArray *out, uint64_t value)
{
	value = GUINT64_TO_BE(value);
	g_byte_array_append(out, (const guint8 *)&value, sizeof(value));
}

static GByteArray *flat_new(uint64_t type, uint64_t version)
{
	GByteArray *out = g_byte_array_new();
	g_byte_array_append(out, (const guint8 *)"makedumpfile\0\0\0", 16);
	put_be(out, type);
	put_be(out, version);
	g_byte_array_set_size(out, 4096);
	memset(out->data + 32, 0, 4096 - 32);
	return out;
}

static void flat_record(GByteArray *out, uint64_t offset, const char *text)
{
	put_be(out, offset);
	put_be(out, strlen(text));
	g_byte_array_append(out, (const guint8 *)text, (guint)strlen(text));
}

static void flat_end(GByteArray *out)
{
	put_be(out, UINT64_MAX);
	put_be(out, UINT64_MAX);
}

static struct vms_core_file *open_bytes(const GByteArray *bytes, GError **error)
{
	g_autoptr(memory_file) memory = memory_file_new(bytes->data, bytes->len);
	return vms_core_file_open(memory->path, error);
}

static void test_flattened(void)
{
	g_autoptr(GByteArray) bytes = flat_new(1, 1);
	g_autoptr(GError) error = NULL;
	flat_record(bytes, 20, "twenty");
	flat_record(bytes, 0, "0123456789");
	flat_record(bytes, 5, "");
	flat_record(bytes, 8, "AB");   /* over the first */
	flat_record(bytes, 10, "CD");  /* behind it */
	flat_record(bytes, 1, "aXYb"); /* over it again */
	flat_record(bytes, 2, "xy");
	flat_end(bytes);
	g_byte_array_append(bytes, (const guint8 *)"rest", 4);
	g_autoptr(vms_core_file) file = open_bytes(bytes, &error);
	g_assert_no_error(error);
	g_assert_null(vms_core_file_damage(file));
	g_assert_cmpuint(vms_core_file_size(file), ==, 26);
	char all[26];
	g_assert_true(vms_core_file_read(file, 0, all, sizeof(all)));
	g_assert_cmpmem(all, sizeof(all), "0axyb567ABCD\0\0\0\0\0\0\0\0twenty", 26);
	for (uint64_t i = 0; i < sizeof(all); i++) {
		char one;
		g_assert_true(vms_core_file_read(file, i, &one, 1));
		g_assert_cmpint(one, ==, all[i]);
	}
	g_assert_false(vms_core_file_read(file, 20, all, 7));
	g_assert_false(vms_core_file_read(file, 27, all, 0));

	uint64_t begin, stop;
	vms_core_file_next_data(file, 3, 26, &begin, &stop);
	g_assert_cmpuint(begin, ==, 3);
	g_assert_cmpuint(stop, ==, 12);
	vms_core_file_next_data(file, 12, 26, &begin, &stop);
	g_assert_cmpuint(begin, ==, 20);
	g_assert_cmpuint(stop, ==, 26);
	vms_core_file_next_data(file, 12, 18, &begin, &stop);
	g_assert_cmpuint(begin, ==, 18);
	g_assert_cmpuint(stop, ==, 18);
}

static void test_flattened_cut_off(void)
{
	g_autoptr(GByteArray) bytes = flat_new(1, 1);
	flat_record(bytes, 0, "whole");
	guint complete = bytes->len;
	flat_record(bytes, 5, "second");
	for (guint size = complete; size < bytes->len; size++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(GByteArray) part = g_byte_array_new();
		g_byte_array_append(part, bytes->data, size);
		g_autoptr(vms_core_file) file = open_bytes(part, &error);
		g_assert_no_error(error);
		g_autofree char *where = g_strdup_printf("0x%x", complete);
		g_assert_nonnull(strstr(vms_core_file_damage(file), where));
		g_assert_cmpuint(vms_core_file_size(file), ==, 5);
		char buf[5];
		g_assert_true(vms_core_file_read(file, 0, buf, 5));
		g_assert_cmpmem(buf, 5, "whole", 5);
	}
}

/* A hole of a sparse file is records of no bytes: it is not read to its end. */
static void test_flattened_hole(void)
{
	const uint64_t records = UINT64_C(4) << 20;
	/* Millions of system calls for each; the limit itself is enough for sanitizers. */
	for (unsigned more = g_test_slow() ? 0 : 1; more < 2; more++) {
		g_autoptr(GByteArray) bytes = flat_new(1, 1);
		g_autoptr(GError) error = NULL;
		g_autoptr(memory_file) memory = memory_file_new(bytes->data, bytes->len);
		off_t size = (off_t)(bytes->len + (records + more) * 16);
		g_assert_cmpint(ftruncate(memory->fd, size), ==, 0);
		g_autoptr(vms_core_file) file = vms_core_file_open(memory->path, &error);
		if (more) {
			g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
			g_assert_nonnull(strstr(error->message, "too many records"));
		} else {
			g_assert_no_error(error);
			g_assert_cmpuint(vms_core_file_size(file), ==, 0);
		}
	}
}

/* Whoever goes through data step by step does not look through all of the rest at each of them. */
static void test_flattened_many(void)
{
	enum { N = 100000 };
	g_autoptr(GByteArray) bytes = flat_new(1, 1);
	for (uint64_t i = 0; i < N; i++)
		flat_record(bytes, i, "x");
	flat_end(bytes);
	g_autoptr(vms_core_file) file = open_bytes(bytes, NULL);
	g_assert_cmpuint(vms_core_file_size(file), ==, N);
	for (uint64_t at = 0; at < N; at++) {
		uint64_t begin, stop;
		vms_core_file_next_data(file, at, N, &begin, &stop);
		g_assert_cmpuint(begin, ==, at);
		g_assert_cmpuint(stop, >, at);
	}
}

static void test_flattened_malformed(void)
{
	const struct {
		uint64_t type, version, offset, size;
	} cases[] = {
		{ 2, 1, 0, 0 },
		{ 1, 2, 0, 0 },
		{ 1, 1, (uint64_t)INT64_MAX + 1, 1 },
		{ 1, 1, 0, (uint64_t)INT64_MAX + 1 },
		{ 1, 1, INT64_MAX, 1 },
		{ 1, 1, UINT64_MAX, 0 },
		{ 1, 1, 0, UINT64_MAX },
		{ 1, 1, UINT64_MAX - 1, UINT64_MAX },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(GByteArray) bytes = flat_new(cases[i].type, cases[i].version);
		put_be(bytes, cases[i].offset);
		put_be(bytes, cases[i].size);
		flat_record(bytes, 0, "x");
		flat_end(bytes);
		g_assert_null(open_bytes(bytes, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
		g_assert_nonnull(strstr(error->message, " at offset 0x"));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/core_file/plain", test_plain);
	g_test_add_func("/core_file/load", test_load);
	g_test_add_func("/core_file/refused", test_refused);
	g_test_add_func("/core_file/holes", test_holes);
	g_test_add_func("/core_file/flattened", test_flattened);
	g_test_add_func("/core_file/flattened-cut-off", test_flattened_cut_off);
	g_test_add_func("/core_file/flattened-malformed", test_flattened_malformed);
	g_test_add_func("/core_file/flattened-hole", test_flattened_hole);
	g_test_add_func("/core_file/flattened-many", test_flattened_many);
	return g_test_run();
}
