/* SPDX-License-Identifier: MIT */
#include "base/keyed_hash.h"
#include <string.h>

#define N 4096

/* 4,096 texts that all have one hash by g_str_hash (h * 33 + c): "ab" and "bA" have the same. */
static void make_text(unsigned number, char text[25])
{
	for (unsigned bit = 0; bit < 12; bit++)
		memcpy(text + 2 * bit, number >> bit & 1 ? "bA" : "ab", 2);
	text[24] = '\0';
}

/* Returns how many of N values fall into the fullest of N places. About 8 for random ones. */
static unsigned find_fullest(const guint *hashes)
{
	static unsigned counts[N];
	unsigned most = 0;
	memset(counts, 0, sizeof(counts));
	for (unsigned i = 0; i < N; i++) {
		const unsigned count = ++counts[hashes[i] % N];
		most = MAX(most, count);
	}
	return most;
}

static void test_texts(void)
{
	static guint plain[N], keyed[N];
	for (unsigned i = 0; i < N; i++) {
		char text[25];
		make_text(i, text);
		plain[i] = g_str_hash(text);
		keyed[i] = vms_hash_text(text);
	}
	g_assert_cmpuint(find_fullest(plain), ==, N);
	g_assert_cmpuint(find_fullest(keyed), <, 20);
}

static void test_numbers(void)
{
	static guint direct[N], whole[N];
	for (unsigned i = 0; i < N; i++) {
		const uint64_t number = (uint64_t)i << 32;
		direct[i] = vms_hash_direct(GSIZE_TO_POINTER(number));
		whole[i] = vms_hash_int64(&number);
	}
	g_assert_cmpuint(find_fullest(direct), <, 20);
	g_assert_cmpuint(find_fullest(whole), <, 20);
}

/* Equal bytes have equal hashes; each byte and the length count. */
static void test_bytes(void)
{
	uint8_t bytes[40] = { 0 };
	for (size_t size = 0; size < sizeof(bytes); size++) {
		const uint64_t hash = vms_keyed_hash(bytes, size);
		g_assert_cmpuint(hash, ==, vms_keyed_hash(bytes, size));
		g_assert_cmpuint(hash, !=, vms_keyed_hash(bytes, size + 1));
		for (size_t i = 0; i < size; i++) {
			bytes[i] = 1;
			g_assert_cmpuint(hash, !=, vms_keyed_hash(bytes, size));
			bytes[i] = 0;
		}
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/keyed_hash/texts", test_texts);
	g_test_add_func("/keyed_hash/numbers", test_numbers);
	g_test_add_func("/keyed_hash/bytes", test_bytes);
	return g_test_run();
}
