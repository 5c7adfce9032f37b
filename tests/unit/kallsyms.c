/* SPDX-License-Identifier: MIT */
/* What the decoder gives must be what the encoder was given. */
#include "guest/linux/kallsyms.h"
#include "kallsyms_encoder.h"

#define IMAGE_VA  UINT64_C(0xffffffff9a200000)
#define N_SYMBOLS 1500
#define N_PERCPU  20

/* Ascending, with aliases, names of one and of several hundred characters, and per-CPU ones at 0.
 */
static GPtrArray *make_sources(const struct kallsyms_shape *shape)
{
	GPtrArray *sources = kallsyms_sources_new();
	bool percpu = shape->kind == KIND_ABSOLUTE || shape->kind == KIND_PERCPU;
	for (unsigned i = 0; percpu && i < N_PERCPU; i++) {
		g_autofree char *name = g_strdup_printf("percpu_%u", i);
		kallsyms_add_source(sources, name, 'A', i / 2 * 64);
	}
	kallsyms_add_source(sources, "_stext", 'T', IMAGE_VA);
	kallsyms_add_source(sources, "_text", 'T', IMAGE_VA);
	uint64_t va = IMAGE_VA;
	for (unsigned i = 0; sources->len < shape->n; i++) {
		va += i % 4 ? 0 : 128;
		g_autofree char *name = g_strdup_printf("__sys_init.function_%u", i * 977);
		if (i % 100 == 7 && shape->long_names) {
			g_autofree char *tail = g_strnfill(200 + i % 90, 'Z');
			g_autofree char *longer = g_strconcat(name, tail, NULL);
			kallsyms_add_source(sources, longer, 't', va);
		} else if (i % 50 == 9) {
			kallsyms_add_source(sources, "x", 'd', va);
		} else {
			kallsyms_add_source(sources, name, i % 3 ? 't' : 'D', va);
		}
	}
	return sources;
}

static struct vms_symbol_table *decode(const GByteArray *bytes, GError **error)
{
	/* A copy of exactly this size, so that a sanitizer sees any byte read beyond. */
	g_autofree uint8_t *copy = g_memdup2(bytes->data, bytes->len);
	return vms_kallsyms_parse((struct vms_bytes) { copy, bytes->len }, IMAGE_VA, error);
}

/* ---- layouts ---------------------------------------------------------- */

static void check_shape(const struct kallsyms_shape *shape)
{
	g_autoptr(GPtrArray) sources = make_sources(shape);
	g_autoptr(GError) error = NULL;
	struct kallsyms_blob blob;
	kallsyms_encode(&blob, shape, sources, IMAGE_VA);
	g_autoptr(vms_symbol_table) table = decode(blob.bytes, &error);
	g_test_message("order %d kind %d seqs %d long %d alignment %zu marks %zu n %u",
		       shape->order, shape->kind, shape->seqs, shape->long_names, shape->alignment,
		       shape->mark_bytes, shape->n);
	g_assert_no_error(error);
	g_assert_cmpuint(vms_symbol_table_count(table), ==, sources->len);
	for (guint i = 0; i < sources->len; i++) {
		const struct kallsyms_source *source = sources->pdata[i];
		struct vms_symbol symbol = vms_symbol_table_get(table, i);
		g_assert_cmpstr(symbol.name, ==, source->name);
		g_assert_cmphex(symbol.va, ==, source->va);
		g_assert_cmpint(symbol.type, ==, source->type);
	}
	g_byte_array_unref(blob.bytes);
}

static void test_layouts(void)
{
	for (unsigned bits = 0; bits < N_ORDERS * N_KINDS * 16; bits++) {
		unsigned rest = bits / 16;
		struct kallsyms_shape shape = {
			.order = rest % N_ORDERS,
			.kind = rest / N_ORDERS,
			.seqs = bits & 1,
			.long_names = bits & 2,
			.alignment = bits & 4 ? 8 : 4,
			.mark_bytes = bits & 8 ? 8 : 4,
			/* Odd and even numbers, and a last marker with one name. */
			.n = N_SYMBOLS + bits % 5 + (bits % 7 == 0 ? 37 : 0),
		};
		check_shape(&shape);
	}
}

static void test_numbers(void)
{
	for (unsigned n = 257; n < 1100; n += 51) {
		struct kallsyms_shape shape = {
			ORDER_SEQS_INSIDE, KIND_PERCPU, true, true, 8, 4, n
		};
		check_shape(&shape);
		shape.seqs = false;
		check_shape(&shape);
	}
}

/* ---- damage ----------------------------------------------------------- */

static const struct kallsyms_shape plain = { ORDER_SEQS_LAST, KIND_BASE_RELATIVE, true, true, 8, 4,
					     N_SYMBOLS };

static void encode_plain(struct kallsyms_blob *blob)
{
	g_autoptr(GPtrArray) sources = make_sources(&plain);
	kallsyms_encode(blob, &plain, sources, IMAGE_VA);
}

static void expect_nothing(struct kallsyms_blob *blob)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(decode(blob->bytes, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_byte_array_unref(blob->bytes);
}

static void set_bytes(struct kallsyms_blob *blob, size_t at, uint64_t value, size_t bytes)
{
	g_assert_cmpuint(at + bytes, <=, blob->bytes->len);
	value = GUINT64_TO_LE(value);
	memcpy(blob->bytes->data + at, &value, bytes);
}

static void test_count(void)
{
	static const uint32_t counts[] = { 0,	       1,	  N_SYMBOLS - 1, N_SYMBOLS + 1,
					   0x7fffffff, UINT32_MAX };
	for (size_t i = 0; i < G_N_ELEMENTS(counts); i++) {
		struct kallsyms_blob blob;
		encode_plain(&blob);
		set_bytes(&blob, blob.num_syms, counts[i], 4);
		expect_nothing(&blob);
	}
}

static void test_names_without_end(void)
{
	struct kallsyms_blob blob;
	encode_plain(&blob);
	memset(blob.bytes->data + blob.names, 0xff, blob.markers - blob.names);
	expect_nothing(&blob);
	encode_plain(&blob);
	memset(blob.bytes->data + blob.names, 0, blob.markers - blob.names);
	expect_nothing(&blob);
}

static void test_markers(void)
{
	struct kallsyms_blob blob;
	encode_plain(&blob);
	set_bytes(&blob, blob.markers + 8, 0, 4);
	expect_nothing(&blob);
	encode_plain(&blob);
	set_bytes(&blob, blob.markers + 4, UINT32_MAX, 4);
	expect_nothing(&blob);
}

static void test_tokens(void)
{
	struct kallsyms_blob blob;
	encode_plain(&blob);
	set_bytes(&blob, blob.token_index + 2 * 255, UINT16_MAX, 2);
	expect_nothing(&blob);
	/* A terminal's escape character in a token. */
	encode_plain(&blob);
	set_bytes(&blob, blob.token_index - 8, 0x1b, 1);
	expect_nothing(&blob);
	/* The last string runs into the index. */
	encode_plain(&blob);
	for (size_t at = blob.token_index - 8; at < blob.token_index; at++)
		set_bytes(&blob, at, 'x', 1);
	expect_nothing(&blob);
}

static void test_addresses(void)
{
	struct kallsyms_blob blob;
	encode_plain(&blob);
	set_bytes(&blob, blob.addresses + 4 * 700, 0, 4);
	expect_nothing(&blob);
	/* _stext outside of the image. */
	encode_plain(&blob);
	set_bytes(&blob, blob.base, IMAGE_VA - 0x10000000, 8);
	expect_nothing(&blob);
	encode_plain(&blob);
	memset(blob.bytes->data + blob.addresses, 0, 4 * N_SYMBOLS);
	expect_nothing(&blob);
}

static void test_truncated(void)
{
	struct kallsyms_blob blob;
	encode_plain(&blob);
	for (size_t size = blob.base; size > 0; size -= MIN(size, 487)) {
		g_autoptr(GError) error = NULL;
		g_byte_array_set_size(blob.bytes, (guint)size);
		g_assert_null(decode(blob.bytes, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	}
	g_byte_array_unref(blob.bytes);
}

/* Nothing but what the search looks for: it gives up. */
static void test_flood(void)
{
	static const char digits[] = "0\0001\0002\0003\0004\0005\0006\0007\0008\0009";
	g_autoptr(GError) error = NULL;
	struct kallsyms_blob blob = { .bytes = g_byte_array_new() };
	g_autofree char *string = g_strnfill(500, 'x');
	while (blob.bytes->len < 16 << 20) {
		kallsyms_put(&blob, digits, sizeof(digits));
		kallsyms_put(&blob, string, strlen(string) + 1);
	}
	g_assert_null(decode(blob.bytes, &error));
	g_assert_nonnull(strstr(error->message, "too many things"));
	g_byte_array_unref(blob.bytes);

	/* A good token table behind what could be a million beginnings of markers. */
	blob = (struct kallsyms_blob) { .bytes = g_byte_array_new() };
	while (blob.bytes->len < 8 << 20) {
		kallsyms_put_number(&blob, 0, 4);
		kallsyms_put_number(&blob, 600, 4);
	}
	kallsyms_put_tokens(&blob, &plain);
	expect_nothing(&blob);
}

/* Strings that lead to a token index are as long as they can be, and none leads to one. */
static void test_token_flood(void)
{
	static const char digits[] = "0\0001\0002\0003\0004\0005\0006\0007\0008\0009";
	enum { STRING = 32 << 10, ROUNDS = 240, TOKENS_AFTER = 256 - '0' - 10 };
	g_autoptr(GError) error = NULL;
	struct kallsyms_blob blob = { .bytes = g_byte_array_new() };
	for (unsigned round = 0; round < ROUNDS; round++) {
		g_autofree char *string = g_strnfill(STRING, 'x');
		size_t begin = kallsyms_align(&blob, 8), index;
		kallsyms_put(&blob, string, STRING + 1);
		while (blob.bytes->len - begin < UINT16_MAX - 1024) {
			size_t place = kallsyms_align(&blob, 8) - begin;
			kallsyms_put(&blob, digits, sizeof(digits));
			for (unsigned i = 0; i < TOKENS_AFTER; i++)
				kallsyms_put_number(&blob, 0, 1);
			index = kallsyms_align(&blob, 8);
			g_byte_array_set_size(blob.bytes, (guint)index + 512);
			memset(blob.bytes->data + index, 0, 512);
			set_bytes(&blob, index + 2 * '0', place, 2);
		}
	}
	g_assert_null(decode(blob.bytes, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_assert_nonnull(strstr(error->message, "too many things"));
	g_byte_array_unref(blob.bytes);
}

/* As many symbols as are believed, and one more. */
static void test_most_symbols(void)
{
	for (unsigned more = 0; more < 2; more++) {
		const struct kallsyms_shape shape = {
			ORDER_SEQS_LAST, KIND_BASE_RELATIVE, false, false, 8, 4, (2u << 20) + more
		};
		g_autoptr(GPtrArray) sources = make_sources(&shape);
		struct kallsyms_blob blob;
		kallsyms_encode(&blob, &shape, sources, IMAGE_VA);
		g_autoptr(vms_symbol_table) table = decode(blob.bytes, NULL);
		g_assert_true((table == NULL) == (more == 1));
		g_byte_array_unref(blob.bytes);
	}
}

/* A name of as many tokens as are believed, most of them empty, and of one more. */
static void test_longest_name(void)
{
	enum { MOST = 512 };
	for (unsigned more = 0; more < 2; more++) {
		char name[MOST + 1] = "x";
		g_autoptr(GPtrArray) sources = make_sources(&plain);
		struct kallsyms_source *symbol = sources->pdata[700];
		struct kallsyms_blob blob;
		memset(name + 1, 1, MOST - 2 + more); /* the type is a token, too */
		g_free(symbol->name);
		symbol->name = g_strdup(name);
		kallsyms_encode(&blob, &plain, sources, IMAGE_VA);
		g_autoptr(vms_symbol_table) table = decode(blob.bytes, NULL);
		g_assert_true((table == NULL) == (more == 1));
		if (table)
			g_assert_cmpstr(vms_symbol_table_get(table, 700).name, ==, "x");
		g_byte_array_unref(blob.bytes);
	}
}

/* A name of as many characters as are believed, in fewer tokens, and of one more. */
static void test_most_characters(void)
{
	enum { MOST = 512, WORDS = 56 };
	for (unsigned more = 0; more < 2; more++) {
		g_autoptr(GPtrArray) sources = make_sources(&plain);
		struct kallsyms_source *symbol = sources->pdata[700];
		g_autoptr(GString) name = g_string_new(NULL);
		struct kallsyms_blob blob;
		for (unsigned i = 0; i < WORDS; i++)
			g_string_append(name, "function_");
		while (name->len < MOST - 1 + more) /* and the type */
			g_string_append_c(name, 'x');
		g_free(symbol->name);
		symbol->name = g_strdup(name->str);
		kallsyms_encode(&blob, &plain, sources, IMAGE_VA);
		g_autoptr(vms_symbol_table) table = decode(blob.bytes, NULL);
		g_assert_true((table == NULL) == (more == 1));
		g_byte_array_unref(blob.bytes);
	}
}

/* Names that are short in the image and long outside of it: 64 MiB are believed. */
static void test_name_bytes(void)
{
	static const struct kallsyms_shape shape = {
		ORDER_SEQS_LAST, KIND_BASE_RELATIVE, false, false, 8, 4, 0
	};
	const unsigned counts[] = { 130000, 140000 };
	g_autoptr(GString) name = g_string_new(NULL);
	for (unsigned i = 0; i < 55; i++)
		g_string_append(name, "function_");
	for (size_t i = 0; i < G_N_ELEMENTS(counts); i++) {
		g_autoptr(GPtrArray) sources = kallsyms_sources_new();
		struct kallsyms_blob blob;
		kallsyms_add_source(sources, "_stext", 'T', IMAGE_VA);
		for (unsigned n = 0; n < counts[i]; n++)
			kallsyms_add_source(sources, name->str, 't', IMAGE_VA + n * 16);
		kallsyms_encode(&blob, &shape, sources, IMAGE_VA);
		g_autoptr(vms_symbol_table) table = decode(blob.bytes, NULL);
		g_assert_true((table == NULL) == (counts[i] * name->len > 64 << 20));
		g_byte_array_unref(blob.bytes);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/kallsyms/layouts", test_layouts);
	g_test_add_func("/kallsyms/numbers", test_numbers);
	g_test_add_func("/kallsyms/count", test_count);
	g_test_add_func("/kallsyms/names", test_names_without_end);
	g_test_add_func("/kallsyms/markers", test_markers);
	g_test_add_func("/kallsyms/tokens", test_tokens);
	g_test_add_func("/kallsyms/addresses", test_addresses);
	g_test_add_func("/kallsyms/truncated", test_truncated);
	g_test_add_func("/kallsyms/flood", test_flood);
	g_test_add_func("/kallsyms/token-flood", test_token_flood);
	if (g_test_slow())
		g_test_add_func("/kallsyms/most-symbols", test_most_symbols);
	g_test_add_func("/kallsyms/most-characters", test_most_characters);
	if (g_test_slow())
		g_test_add_func("/kallsyms/name-bytes", test_name_bytes);
	g_test_add_func("/kallsyms/longest-name", test_longest_name);
	return g_test_run();
}
