/* SPDX-License-Identifier: MIT */
/* Buffers of samples: what is kept, in which order, and that nothing is lost without being counted.
 */
#include "capture/sample_buffer.h"
#include <string.h>

#define RECORDS 200000

/* A record: its size, its number, and bytes that follow from that. */
static uint64_t make_record(uint64_t number, uint8_t ret[64])
{
	const uint64_t size = 16 + 8 * (number % 7);
	memset(ret, (int)(number % 251), 64);
	memcpy(ret, &size, sizeof(size));
	memcpy(ret + 8, &number, sizeof(number));
	return size;
}

/* Checks that all of `out` are whole records, with rising numbers. Returns how many. */
static uint64_t check_records(const GByteArray *out, uint64_t *next)
{
	uint64_t n = 0;
	for (guint at = 0; at < out->len; n++) {
		uint8_t expected[64];
		uint64_t number;
		g_assert_cmpuint(out->len - at, >=, 16);
		memcpy(&number, out->data + at + 8, sizeof(number));
		g_assert_cmpuint(number, >=, *next);
		*next = number + 1;
		const uint64_t size = make_record(number, expected);
		g_assert_cmpmem(out->data + at, size, expected, size);
		at += (guint)size;
	}
	return n;
}

static void put(struct vms_sample_buffer *buffer, uint64_t number)
{
	uint8_t record[64];
	const uint64_t size = make_record(number, record);
	vms_sample_buffer_put(buffer, record, size);
}

/* Nobody drains: it fills, and what does not fit is counted. Drained, it takes records again. */
static void test_full(void)
{
	struct vms_sample_buffer buffer;
	g_autoptr(GByteArray) out = g_byte_array_new();
	uint64_t next = 0;
	g_assert_true(vms_sample_buffer_init(&buffer, 4096, NULL));
	for (uint64_t i = 0; i < 1000; i++)
		put(&buffer, i);
	g_assert_cmpuint(buffer.kept + buffer.lost, ==, 1000);
	g_assert_cmpuint(buffer.lost, >, 800);
	vms_sample_buffer_drain(&buffer, out);
	g_assert_cmpuint(check_records(out, &next), ==, buffer.kept);
	g_assert_cmpuint(out->len, >, 4096 - 64);
	const uint64_t lost = buffer.lost;
	put(&buffer, 1000);
	g_assert_cmpuint(buffer.lost, ==, lost);
	g_byte_array_set_size(out, 0);
	vms_sample_buffer_drain(&buffer, out);
	g_assert_cmpuint(check_records(out, &next), ==, 1);
	vms_sample_buffer_clear(&buffer);
}

static void *put_all(void *data)
{
	for (uint64_t i = 0; i < RECORDS; i++)
		put(data, i);
	return NULL;
}

/* One thread puts while another one drains: collected + lost = taken. */
static void test_streaming(void)
{
	struct vms_sample_buffer buffer;
	uint64_t next = 0, collected = 0;
	bool is_last = false;
	g_assert_true(vms_sample_buffer_init(&buffer, 1000, NULL)); /* no multiple of a record */
	GThread *thread = g_thread_new("put", put_all, &buffer);
	while (!is_last) {
		g_autoptr(GByteArray) out = g_byte_array_new();
		is_last = buffer.kept + buffer.lost == RECORDS;
		vms_sample_buffer_drain(&buffer, out);
		collected += check_records(out, &next);
	}
	g_thread_join(thread);
	g_assert_cmpuint(collected, ==, buffer.kept);
	g_assert_cmpuint(collected + buffer.lost, ==, RECORDS);
	vms_sample_buffer_clear(&buffer);
}

/* A record that is larger than the buffer is counted, too. */
static void test_too_large(void)
{
	struct vms_sample_buffer buffer;
	const uint8_t record[64] = { 0 };
	g_assert_true(vms_sample_buffer_init(&buffer, 32, NULL));
	g_assert_false(vms_sample_buffer_put(&buffer, record, sizeof(record)));
	g_assert_cmpuint(buffer.lost, ==, 1);
	vms_sample_buffer_clear(&buffer);
}

static void test_no_memory(void)
{
	struct vms_sample_buffer buffer;
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_sample_buffer_init(&buffer, UINT64_C(1) << 62, &error));
	g_assert_nonnull(strstr(error->message, "cannot get 4611686018427387904 bytes"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/sample_buffer/full", test_full);
	g_test_add_func("/sample_buffer/streaming", test_streaming);
	g_test_add_func("/sample_buffer/too_large", test_too_large);
	g_test_add_func("/sample_buffer/no_memory", test_no_memory);
	return g_test_run();
}
