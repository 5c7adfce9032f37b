/* SPDX-License-Identifier: MIT */
/* Code in recordings: what is written is read again, piece by piece. */
#include "sample/recording_code.h"
#include "capture/fxt_reader.h"
#include "capture/fxt_writer.h"
#include "capture/sample_records.h"

#define SIZE 40000 /* several pieces */

static struct vms_binary *make_file(uint8_t bytes[SIZE])
{
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	const struct vms_file_source source =
		vms_file_source_of_memory(g_memdup2(bytes, SIZE), SIZE);
	return vms_binary_new("file", &source);
}

/* Reads all attachments of code back. */
static struct vms_binary *read_back(const GByteArray *written, uint64_t number)
{
	const struct vms_bytes bytes = { written->data, written->len };
	struct vms_fxt_reader *reader = vms_fxt_reader_new(bytes);
	struct vms_recorded_code *code = vms_recorded_code_new();
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	while (vms_fxt_reader_next(reader, &record, &damage) == VMS_FXT_RECORD) {
		const struct vms_bytes payload = { record.payload, record.payload_size };
		struct vms_bytes piece;
		uint64_t file, offset;
		if (record.type != VMS_FXT_LARGE_BLOB)
			continue;
		g_assert_true(vms_recorded_code_parse(payload, &file, &offset, &piece));
		g_assert_cmpuint(file, ==, number);
		vms_recorded_code_add(code, offset, piece);
	}
	vms_fxt_reader_free(reader);
	return vms_recorded_code_make_binary(code, "recorded", NULL);
}

static void test_pieces(void)
{
	uint8_t bytes[SIZE], found[SIZE];
	g_autoptr(vms_binary) file = make_file(bytes);
	g_autoptr(GByteArray) out = g_byte_array_new();
	uint64_t left = SIZE;
	vms_records_put_start(out, VMS_RECORDS_HOST);
	vms_recorded_code_put(out, 9, file, 100, SIZE - 200, &left);
	vms_recorded_code_put(out, 9, file, SIZE - 50, 20, &left);
	g_assert_cmpuint(left, ==, 180);
	g_autoptr(vms_binary) binary = read_back(out, 9);
	g_assert_true(vms_binary_read(binary, 100, found, SIZE - 200));
	g_assert_cmpmem(found, SIZE - 200, bytes + 100, SIZE - 200);
	g_assert_true(vms_binary_read(binary, SIZE - 40, found, 10));
	g_assert_cmpmem(found, 10, bytes + SIZE - 40, 10);
	g_assert_false(vms_binary_read(binary, 99, found, 2));
	g_assert_false(vms_binary_read(binary, SIZE - 101, found, 2));
	g_assert_false(vms_binary_read(binary, SIZE - 31, found, 2));
	g_assert_false(vms_binary_read(binary, UINT64_MAX, found, 1));
}

/* What finds no room, or is not in the file, is left out as a whole. */
static void test_limits(void)
{
	uint8_t bytes[SIZE];
	g_autoptr(vms_binary) file = make_file(bytes);
	g_autoptr(GByteArray) out = g_byte_array_new();
	uint64_t left = 1000;
	vms_recorded_code_put(out, 1, file, 0, 1001, &left);
	vms_recorded_code_put(out, 1, file, SIZE - 10, 11, &left);
	vms_recorded_code_put(out, 1, file, UINT64_MAX, 2, &left);
	g_assert_cmpuint(out->len, ==, 0);
	g_assert_cmpuint(left, ==, 1000);
}

static void test_malformed(void)
{
	const uint8_t payload[17] = { 5, [8] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	uint64_t file, offset;
	struct vms_bytes code;
	for (size_t size = 0; size < 16; size++)
		g_assert_false(vms_recorded_code_parse((struct vms_bytes) { payload, size }, &file,
						       &offset, &code));
	g_assert_true(
		vms_recorded_code_parse((struct vms_bytes) { payload, 16 }, &file, &offset, &code));
	g_assert_cmpuint(file, ==, 5);
	g_assert_cmpuint(code.size, ==, 0);
	/* It would end beyond the last address. */
	g_assert_false(
		vms_recorded_code_parse((struct vms_bytes) { payload, 17 }, &file, &offset, &code));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/recording-code/pieces", test_pieces);
	g_test_add_func("/recording-code/limits", test_limits);
	g_test_add_func("/recording-code/malformed", test_malformed);
	return g_test_run();
}
