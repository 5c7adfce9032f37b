/* SPDX-License-Identifier: MIT */
/*
 * An encoder writes kallsyms as scripts/kallsyms.c of the kernel has done since 4.19, in every
 * combination of order and element type; what the decoder gives must be what went in.
 */
#include "guest/linux/kallsyms.h"

#define IMAGE_VA  UINT64_C(0xffffffff9a200000)
#define N_SYMBOLS 1500
#define N_PERCPU  20

enum order {
	ORDER_ADDRESSES_FIRST, /* before 6.4 */
	ORDER_SEQS_INSIDE,     /* from 6.4 on */
	ORDER_SEQS_LAST,       /* from 6.9 on */
	N_ORDERS
};

enum kind { KIND_ABSOLUTE, KIND_BASE_RELATIVE, KIND_PERCPU, KIND_PLACE_RELATIVE, N_KINDS };

struct shape {
	enum order order;
	enum kind kind;
	bool seqs;
	bool long_names; /* of two bytes' length */
	size_t alignment;
	size_t mark_bytes; /* and of num_syms */
	unsigned n;	   /* symbols */
};

struct source_symbol {
	char *name;
	char type;
	uint64_t va;
};

/* Where the encoder has put what, for tests that damage it. */
struct blob {
	GByteArray *bytes;
	size_t num_syms, names, markers, tokens, token_index, addresses, base;
};

/* ---- symbols ---------------------------------------------------------- */

static void free_source(gpointer data)
{
	struct source_symbol *symbol = data;
	g_free(symbol->name);
	g_free(symbol);
}

static void add_source(GPtrArray *sources, const char *name, char type, uint64_t va)
{
	struct source_symbol *symbol = g_new(struct source_symbol, 1);
	*symbol = (struct source_symbol) { g_strdup(name), type, va };
	g_ptr_array_add(sources, symbol);
}

/* Ascending, with aliases, names of one and of several hundred characters, and per-CPU ones at 0.
 */
static GPtrArray *make_sources(const struct shape *shape)
{
	GPtrArray *sources = g_ptr_array_new_with_free_func(free_source);
	bool percpu = shape->kind == KIND_ABSOLUTE || shape->kind == KIND_PERCPU;
	for (unsigned i = 0; percpu && i < N_PERCPU; i++) {
		g_autofree char *name = g_strdup_printf("percpu_%u", i);
		add_source(sources, name, 'A', i / 2 * 64);
	}
	add_source(sources, "_stext", 'T', IMAGE_VA);
	add_source(sources, "_text", 'T', IMAGE_VA);
	uint64_t va = IMAGE_VA;
	for (unsigned i = 0; sources->len < shape->n; i++) {
		va += i % 4 ? 0 : 128;
		g_autofree char *name = g_strdup_printf("__sys_init.function_%u", i * 977);
		if (i % 100 == 7 && shape->long_names) {
			g_autofree char *tail = g_strnfill(200 + i % 90, 'Z');
			g_autofree char *longer = g_strconcat(name, tail, NULL);
			add_source(sources, longer, 't', va);
		} else if (i % 50 == 9) {
			add_source(sources, "x", 'd', va);
		} else {
			add_source(sources, name, i % 3 ? 't' : 'D', va);
		}
	}
	return sources;
}

/* ---- the encoder ------------------------------------------------------ */

static void put(struct blob *blob, const void *data, size_t size)
{
	g_byte_array_append(blob->bytes, data, (guint)size);
}

static void put_number(struct blob *blob, uint64_t value, size_t bytes)
{
	value = GUINT64_TO_LE(value);
	put(blob, &value, bytes);
}

static size_t align(struct blob *blob, size_t alignment)
{
	while (blob->bytes->len % alignment)
		put_number(blob, 0, 1);
	return blob->bytes->len;
}

#define FIRST_WORD 128
static const char *const words[] = { "__", "sys_", "init", "function_", "percpu_" };

/* What a code stands for: characters of symbols for themselves, others for words or nothing. */
static const char *token_text(unsigned code, char *buf)
{
	buf[0] = g_ascii_isalnum(code) || code == '_' || code == '.' ? (char)code : '\0';
	buf[1] = '\0';
	if (code >= FIRST_WORD && code < FIRST_WORD + G_N_ELEMENTS(words))
		return words[code - FIRST_WORD];
	return code > 200 ? "unused" : buf;
}

/* The token to write `text` with, and how much of it that is. */
static uint8_t best_token(const char *text, size_t *length)
{
	for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
		*length = strlen(words[i]);
		if (!strncmp(text, words[i], *length))
			return (uint8_t)(FIRST_WORD + i);
	}
	*length = 1;
	return (uint8_t)*text;
}

static void put_name(struct blob *blob, const struct source_symbol *symbol)
{
	g_autofree char *text = g_strdup_printf("%c%s", symbol->type, symbol->name);
	g_autoptr(GByteArray) codes = g_byte_array_new();
	for (const char *at = text; *at;) {
		size_t length;
		uint8_t code = best_token(at, &length);
		g_byte_array_append(codes, &code, 1);
		at += length;
	}
	if (codes->len < 128) {
		put_number(blob, codes->len, 1);
	} else {
		put_number(blob, 0x80 | (codes->len & 0x7f), 1);
		put_number(blob, codes->len >> 7, 1);
	}
	put(blob, codes->data, codes->len);
}

static void put_names_and_markers(struct blob *blob, const struct shape *shape,
				  const GPtrArray *sources)
{
	g_autoptr(GArray) marks = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	blob->num_syms = align(blob, shape->alignment);
	put_number(blob, sources->len, shape->mark_bytes);
	blob->names = align(blob, shape->alignment);
	for (guint i = 0; i < sources->len; i++) {
		uint64_t mark = blob->bytes->len - blob->names;
		if (i % 256 == 0)
			g_array_append_val(marks, mark);
		put_name(blob, sources->pdata[i]);
	}
	blob->markers = align(blob, shape->alignment);
	for (guint i = 0; i < marks->len; i++)
		put_number(blob, g_array_index(marks, uint64_t, i), shape->mark_bytes);
}

static void put_seqs(struct blob *blob, const struct shape *shape, const GPtrArray *sources)
{
	align(blob, shape->alignment);
	for (guint i = 0; shape->seqs && i < sources->len; i++)
		put_number(blob, (i * 7919u) % sources->len, 3);
}

static void put_tokens(struct blob *blob, const struct shape *shape)
{
	uint16_t offset[256];
	char buf[2];
	blob->tokens = align(blob, shape->alignment);
	for (unsigned i = 0; i < 256; i++) {
		const char *text = token_text(i, buf);
		offset[i] = (uint16_t)(blob->bytes->len - blob->tokens);
		put(blob, text, strlen(text) + 1);
	}
	blob->token_index = align(blob, shape->alignment);
	for (unsigned i = 0; i < 256; i++)
		put_number(blob, offset[i], 2);
}

static uint64_t encode_address(const struct blob *blob, enum kind kind, uint64_t va)
{
	switch (kind) {
	case KIND_BASE_RELATIVE: return va - IMAGE_VA;
	case KIND_PERCPU: return va < IMAGE_VA ? va : IMAGE_VA - 1 - va;
	case KIND_PLACE_RELATIVE: return va - (IMAGE_VA + blob->bytes->len);
	case KIND_ABSOLUTE:
	case N_KINDS: break;
	}
	return va;
}

static void put_addresses(struct blob *blob, const struct shape *shape, const GPtrArray *sources)
{
	blob->addresses = align(blob, shape->alignment);
	for (guint i = 0; i < sources->len; i++) {
		const struct source_symbol *symbol = sources->pdata[i];
		put_number(blob, encode_address(blob, shape->kind, symbol->va),
			   shape->kind == KIND_ABSOLUTE ? 8 : 4);
	}
	blob->base = align(blob, shape->alignment);
	if (shape->kind == KIND_BASE_RELATIVE || shape->kind == KIND_PERCPU)
		put_number(blob, IMAGE_VA, 8);
}

/* Something before and after, like the rest of an image. */
static void put_filling(struct blob *blob, size_t size)
{
	static const char decoy[] = "0\0001\0002\0003\0004\0005\0006\0007\0008\0009";
	for (size_t i = 0; i < size; i++)
		put_number(blob, i % 97 < 40 ? 0 : i * 31 + i / 256, 1);
	put(blob, decoy, sizeof(decoy));
}

static void encode(struct blob *blob, const struct shape *shape, const GPtrArray *sources)
{
	*blob = (struct blob) { .bytes = g_byte_array_new() };
	put_filling(blob, 5000);
	if (shape->order == ORDER_ADDRESSES_FIRST)
		put_addresses(blob, shape, sources);
	put_names_and_markers(blob, shape, sources);
	if (shape->order != ORDER_SEQS_LAST)
		put_seqs(blob, shape, sources);
	put_tokens(blob, shape);
	if (shape->order != ORDER_ADDRESSES_FIRST)
		put_addresses(blob, shape, sources);
	if (shape->order == ORDER_SEQS_LAST)
		put_seqs(blob, shape, sources);
	put_filling(blob, 60000);
}

static struct vms_symbol_table *decode(const GByteArray *bytes, GError **error)
{
	/* A copy of exactly this size, so that a sanitizer sees any byte read beyond. */
	g_autofree uint8_t *copy = g_memdup2(bytes->data, bytes->len);
	return vms_kallsyms_parse((struct vms_bytes) { copy, bytes->len }, IMAGE_VA, error);
}

/* ---- layouts ---------------------------------------------------------- */

static void check_shape(const struct shape *shape)
{
	g_autoptr(GPtrArray) sources = make_sources(shape);
	g_autoptr(GError) error = NULL;
	struct blob blob;
	encode(&blob, shape, sources);
	g_autoptr(vms_symbol_table) table = decode(blob.bytes, &error);
	g_test_message("order %d kind %d seqs %d long %d alignment %zu marks %zu n %u",
		       shape->order, shape->kind, shape->seqs, shape->long_names, shape->alignment,
		       shape->mark_bytes, shape->n);
	g_assert_no_error(error);
	g_assert_cmpuint(vms_symbol_table_count(table), ==, sources->len);
	for (guint i = 0; i < sources->len; i++) {
		const struct source_symbol *source = sources->pdata[i];
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
		struct shape shape = {
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
		struct shape shape = { ORDER_SEQS_INSIDE, KIND_PERCPU, true, true, 8, 4, n };
		check_shape(&shape);
		shape.seqs = false;
		check_shape(&shape);
	}
}

/* ---- damage ----------------------------------------------------------- */

static const struct shape plain = {
	ORDER_SEQS_LAST, KIND_BASE_RELATIVE, true, true, 8, 4, N_SYMBOLS
};

static void encode_plain(struct blob *blob)
{
	g_autoptr(GPtrArray) sources = make_sources(&plain);
	encode(blob, &plain, sources);
}

static void expect_nothing(struct blob *blob)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(decode(blob->bytes, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_byte_array_unref(blob->bytes);
}

static void set_bytes(struct blob *blob, size_t at, uint64_t value, size_t bytes)
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
		struct blob blob;
		encode_plain(&blob);
		set_bytes(&blob, blob.num_syms, counts[i], 4);
		expect_nothing(&blob);
	}
}

static void test_names_without_end(void)
{
	struct blob blob;
	encode_plain(&blob);
	memset(blob.bytes->data + blob.names, 0xff, blob.markers - blob.names);
	expect_nothing(&blob);
	encode_plain(&blob);
	memset(blob.bytes->data + blob.names, 0, blob.markers - blob.names);
	expect_nothing(&blob);
}

static void test_markers(void)
{
	struct blob blob;
	encode_plain(&blob);
	set_bytes(&blob, blob.markers + 8, 0, 4);
	expect_nothing(&blob);
	encode_plain(&blob);
	set_bytes(&blob, blob.markers + 4, UINT32_MAX, 4);
	expect_nothing(&blob);
}

static void test_tokens(void)
{
	struct blob blob;
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
	struct blob blob;
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
	struct blob blob;
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
	struct blob blob = { .bytes = g_byte_array_new() };
	g_autofree char *string = g_strnfill(500, 'x');
	while (blob.bytes->len < 16 << 20) {
		put(&blob, digits, sizeof(digits));
		put(&blob, string, strlen(string) + 1);
	}
	g_assert_null(decode(blob.bytes, &error));
	g_assert_nonnull(strstr(error->message, "too many things"));
	g_byte_array_unref(blob.bytes);

	/* A good token table behind what could be a million beginnings of markers. */
	blob = (struct blob) { .bytes = g_byte_array_new() };
	while (blob.bytes->len < 8 << 20) {
		put_number(&blob, 0, 4);
		put_number(&blob, 600, 4);
	}
	put_tokens(&blob, &plain);
	expect_nothing(&blob);
}

/* Strings that lead to a token index are as long as they can be, and none leads to one. */
static void test_token_flood(void)
{
	static const char digits[] = "0\0001\0002\0003\0004\0005\0006\0007\0008\0009";
	enum { STRING = 32 << 10, ROUNDS = 240, TOKENS_AFTER = 256 - '0' - 10 };
	g_autoptr(GError) error = NULL;
	struct blob blob = { .bytes = g_byte_array_new() };
	for (unsigned round = 0; round < ROUNDS; round++) {
		g_autofree char *string = g_strnfill(STRING, 'x');
		size_t begin = align(&blob, 8), index;
		put(&blob, string, STRING + 1);
		while (blob.bytes->len - begin < UINT16_MAX - 1024) {
			size_t place = align(&blob, 8) - begin;
			put(&blob, digits, sizeof(digits));
			for (unsigned i = 0; i < TOKENS_AFTER; i++)
				put_number(&blob, 0, 1);
			index = align(&blob, 8);
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
		const struct shape shape = {
			ORDER_SEQS_LAST, KIND_BASE_RELATIVE, false, false, 8, 4, (2u << 20) + more
		};
		g_autoptr(GPtrArray) sources = make_sources(&shape);
		struct blob blob;
		encode(&blob, &shape, sources);
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
		struct source_symbol *symbol = sources->pdata[700];
		struct blob blob;
		memset(name + 1, 1, MOST - 2 + more); /* the type is a token, too */
		g_free(symbol->name);
		symbol->name = g_strdup(name);
		encode(&blob, &plain, sources);
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
		struct source_symbol *symbol = sources->pdata[700];
		g_autoptr(GString) name = g_string_new(NULL);
		struct blob blob;
		for (unsigned i = 0; i < WORDS; i++)
			g_string_append(name, "function_");
		while (name->len < MOST - 1 + more) /* and the type */
			g_string_append_c(name, 'x');
		g_free(symbol->name);
		symbol->name = g_strdup(name->str);
		encode(&blob, &plain, sources);
		g_autoptr(vms_symbol_table) table = decode(blob.bytes, NULL);
		g_assert_true((table == NULL) == (more == 1));
		g_byte_array_unref(blob.bytes);
	}
}

/* Names that are short in the image and long outside of it: 64 MiB are believed. */
static void test_name_bytes(void)
{
	static const struct shape shape = {
		ORDER_SEQS_LAST, KIND_BASE_RELATIVE, false, false, 8, 4, 0
	};
	const unsigned counts[] = { 130000, 140000 };
	g_autoptr(GString) name = g_string_new(NULL);
	for (unsigned i = 0; i < 55; i++)
		g_string_append(name, "function_");
	for (size_t i = 0; i < G_N_ELEMENTS(counts); i++) {
		g_autoptr(GPtrArray) sources = g_ptr_array_new_with_free_func(free_source);
		struct blob blob;
		add_source(sources, "_stext", 'T', IMAGE_VA);
		for (unsigned n = 0; n < counts[i]; n++)
			add_source(sources, name->str, 't', IMAGE_VA + n * 16);
		encode(&blob, &shape, sources);
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
	g_test_add_func("/kallsyms/most-symbols", test_most_symbols);
	g_test_add_func("/kallsyms/most-characters", test_most_characters);
	g_test_add_func("/kallsyms/name-bytes", test_name_bytes);
	g_test_add_func("/kallsyms/longest-name", test_longest_name);
	return g_test_run();
}
