/* SPDX-License-Identifier: MIT */
/* Damaged records of the Fuchsia Trace Format: what is told, and where reading continues. */
#include "capture/fxt_reader.h"
#include "capture/fxt_writer.h"

static void put_word(GByteArray *out, uint64_t word)
{
	word = GUINT64_TO_LE(word);
	g_byte_array_append(out, (const guint8 *)&word, sizeof(word));
}

static void put_instant(GByteArray *out, uint64_t time)
{
	const struct vms_fxt_record record = { .type = VMS_FXT_EVENT,
					       .kind = VMS_FXT_INSTANT,
					       .time = time,
					       .name = vms_fxt_inline("here") };
	g_assert_true(vms_fxt_write(out, &record));
}

/* Checks that bytes that follow an event and precede another one are one fault, and are skipped. */
static void check_fault(const GByteArray *damaged, const char *reason)
{
	g_autoptr(GByteArray) file = g_byte_array_new();
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	put_instant(file, 1);
	const uint64_t begin = file->len;
	g_byte_array_append(file, damaged->data, damaged->len);
	put_instant(file, 2);
	struct vms_fxt_reader *reader =
		vms_fxt_reader_new((struct vms_bytes) { file->data, file->len });
	g_assert_cmpint(vms_fxt_reader_next(reader, &record, &damage), ==, VMS_FXT_RECORD);
	g_assert_cmpint(vms_fxt_reader_next(reader, &record, &damage), ==, VMS_FXT_DAMAGED);
	g_assert_cmpstr(damage.reason, ==, reason);
	g_assert_cmpuint(damage.offset, ==, begin);
	g_assert_cmpuint(damage.size, ==, damaged->len);
	g_assert_cmpint(vms_fxt_reader_next(reader, &record, &damage), ==, VMS_FXT_RECORD);
	g_assert_cmpuint(record.time, ==, 2);
	g_assert_cmpint(vms_fxt_reader_next(reader, &record, &damage), ==, VMS_FXT_END);
	vms_fxt_reader_free(reader);
}

/* A blob of `payload` bytes that says that it has `size`, without a category and a name. */
static GByteArray *make_large_blob(uint64_t size, unsigned payload)
{
	GByteArray *blob = g_byte_array_new();
	const uint64_t words = 3 + payload / 8;
	put_word(blob, VMS_FXT_LARGE_BLOB | words << 4 | UINT64_C(1) << 40); /* an attachment */
	put_word(blob, 0);
	put_word(blob, size);
	g_byte_array_set_size(blob, (guint)words * 8);
	memset(blob->data + 24, 0, payload);
	return blob;
}

/* Sizes from too large by one word to those that wrap around when they are rounded to words. */
static void test_size_too_large(void)
{
	static const uint64_t sizes[] = {
		9, 16, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 6, UINT64_MAX - 7
	};
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
		for (unsigned payload = 0; payload <= 8; payload += 8) {
			g_autoptr(GByteArray) blob = make_large_blob(sizes[i], payload);
			check_fault(blob, "it is shorter than what it has");
		}
}

static void test_size_too_small(void)
{
	g_autoptr(GByteArray) blob = make_large_blob(0, 8);
	check_fault(blob, "it is longer than what it has");
}

/* What is behind the last byte of a payload is zero; else its size is likely wrong. */
static void test_padding(void)
{
	g_autoptr(GByteArray) blob = make_large_blob(3, 8);
	blob->data[24 + 3] = 1;
	check_fault(blob, "its padding is not zero");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/fxt/size-too-large", test_size_too_large);
	g_test_add_func("/fxt/size-too-small", test_size_too_small);
	g_test_add_func("/fxt/padding", test_padding);
	return g_test_run();
}
