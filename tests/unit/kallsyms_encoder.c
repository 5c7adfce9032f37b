/* SPDX-License-Identifier: MIT */
#include "kallsyms_encoder.h"
#include <string.h>

static void free_source(gpointer data)
{
	struct kallsyms_source *symbol = data;
	g_free(symbol->name);
	g_free(symbol);
}

GPtrArray *kallsyms_sources_new(void)
{
	return g_ptr_array_new_with_free_func(free_source);
}

void kallsyms_add_source(GPtrArray *sources, const char *name, char type, uint64_t va)
{
	struct kallsyms_source *symbol = g_new(struct kallsyms_source, 1);
	*symbol = (struct kallsyms_source) { g_strdup(name), type, va };
	g_ptr_array_add(sources, symbol);
}

void kallsyms_put(struct kallsyms_blob *blob, const void *data, size_t size)
{
	g_byte_array_append(blob->bytes, data, (guint)size);
}

void kallsyms_put_number(struct kallsyms_blob *blob, uint64_t value, size_t bytes)
{
	value = GUINT64_TO_LE(value);
	kallsyms_put(blob, &value, bytes);
}

size_t kallsyms_align(struct kallsyms_blob *blob, size_t alignment)
{
	while (blob->bytes->len % alignment)
		kallsyms_put_number(blob, 0, 1);
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

static void put_name(struct kallsyms_blob *blob, const struct kallsyms_source *symbol)
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
		kallsyms_put_number(blob, codes->len, 1);
	} else {
		kallsyms_put_number(blob, 0x80 | (codes->len & 0x7f), 1);
		kallsyms_put_number(blob, codes->len >> 7, 1);
	}
	kallsyms_put(blob, codes->data, codes->len);
}

static void put_names_and_markers(struct kallsyms_blob *blob, const struct kallsyms_shape *shape,
				  const GPtrArray *sources)
{
	g_autoptr(GArray) marks = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	blob->num_syms = kallsyms_align(blob, shape->alignment);
	kallsyms_put_number(blob, sources->len, shape->mark_bytes);
	blob->names = kallsyms_align(blob, shape->alignment);
	for (guint i = 0; i < sources->len; i++) {
		uint64_t mark = blob->bytes->len - blob->names;
		if (i % 256 == 0)
			g_array_append_val(marks, mark);
		put_name(blob, sources->pdata[i]);
	}
	blob->markers = kallsyms_align(blob, shape->alignment);
	for (guint i = 0; i < marks->len; i++)
		kallsyms_put_number(blob, g_array_index(marks, uint64_t, i), shape->mark_bytes);
}

static void put_seqs(struct kallsyms_blob *blob, const struct kallsyms_shape *shape,
		     const GPtrArray *sources)
{
	kallsyms_align(blob, shape->alignment);
	for (guint i = 0; shape->seqs && i < sources->len; i++)
		kallsyms_put_number(blob, (i * 7919u) % sources->len, 3);
}

void kallsyms_put_tokens(struct kallsyms_blob *blob, const struct kallsyms_shape *shape)
{
	uint16_t offset[256];
	char buf[2];
	blob->tokens = kallsyms_align(blob, shape->alignment);
	for (unsigned i = 0; i < 256; i++) {
		const char *text = token_text(i, buf);
		offset[i] = (uint16_t)(blob->bytes->len - blob->tokens);
		kallsyms_put(blob, text, strlen(text) + 1);
	}
	blob->token_index = kallsyms_align(blob, shape->alignment);
	for (unsigned i = 0; i < 256; i++)
		kallsyms_put_number(blob, offset[i], 2);
}

static uint64_t encode_address(const struct kallsyms_blob *blob, enum kallsyms_kind kind,
			       uint64_t va)
{
	switch (kind) {
	case KIND_BASE_RELATIVE: return va - blob->image_va;
	case KIND_PERCPU: return va < blob->image_va ? va : blob->image_va - 1 - va;
	case KIND_PLACE_RELATIVE: return va - (blob->image_va + blob->bytes->len);
	case KIND_ABSOLUTE:
	case N_KINDS: break;
	}
	return va;
}

static void put_addresses(struct kallsyms_blob *blob, const struct kallsyms_shape *shape,
			  const GPtrArray *sources)
{
	blob->addresses = kallsyms_align(blob, shape->alignment);
	for (guint i = 0; i < sources->len; i++) {
		const struct kallsyms_source *symbol = sources->pdata[i];
		kallsyms_put_number(blob, encode_address(blob, shape->kind, symbol->va),
				    shape->kind == KIND_ABSOLUTE ? 8 : 4);
	}
	blob->base = kallsyms_align(blob, shape->alignment);
	if (shape->kind == KIND_BASE_RELATIVE || shape->kind == KIND_PERCPU)
		kallsyms_put_number(blob, blob->image_va, 8);
}

/* Something before and after, like the rest of an image. */
static void put_filling(struct kallsyms_blob *blob, size_t size)
{
	static const char decoy[] = "0\0001\0002\0003\0004\0005\0006\0007\0008\0009";
	for (size_t i = 0; i < size; i++)
		kallsyms_put_number(blob, i % 97 < 40 ? 0 : i * 31 + i / 256, 1);
	kallsyms_put(blob, decoy, sizeof(decoy));
}

void kallsyms_encode(struct kallsyms_blob *blob, const struct kallsyms_shape *shape,
		     const GPtrArray *sources, uint64_t image_va)
{
	*blob = (struct kallsyms_blob) { .bytes = g_byte_array_new(), .image_va = image_va };
	put_filling(blob, 5000);
	if (shape->order == ORDER_ADDRESSES_FIRST)
		put_addresses(blob, shape, sources);
	put_names_and_markers(blob, shape, sources);
	if (shape->order != ORDER_SEQS_LAST)
		put_seqs(blob, shape, sources);
	kallsyms_put_tokens(blob, shape);
	if (shape->order != ORDER_ADDRESSES_FIRST)
		put_addresses(blob, shape, sources);
	if (shape->order == ORDER_SEQS_LAST)
		put_seqs(blob, shape, sources);
	put_filling(blob, 60000);
}
