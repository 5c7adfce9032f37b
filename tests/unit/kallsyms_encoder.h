/* SPDX-License-Identifier: MIT */
/*
 * Writes kallsyms as scripts/kallsyms.c of the kernel has done since 4.19, in every combination of
 * order and element type.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum kallsyms_order {
	ORDER_ADDRESSES_FIRST, /* before 6.4 */
	ORDER_SEQS_INSIDE,     /* from 6.4 on */
	ORDER_SEQS_LAST,       /* from 6.9 on */
	N_ORDERS
};

enum kallsyms_kind { KIND_ABSOLUTE, KIND_BASE_RELATIVE, KIND_PERCPU, KIND_PLACE_RELATIVE, N_KINDS };

struct kallsyms_shape {
	enum kallsyms_order order;
	enum kallsyms_kind kind;
	bool seqs;
	bool long_names; /* of two bytes' length */
	size_t alignment;
	size_t mark_bytes; /* and of num_syms */
	unsigned n;	   /* symbols */
};

struct kallsyms_source {
	char *name;
	char type;
	uint64_t va;
};

/* An empty array for kallsyms_add_source. */
GPtrArray *kallsyms_sources_new(void);
/* In ascending order of addresses. */
void kallsyms_add_source(GPtrArray *sources, const char *name, char type, uint64_t va);

/* Where the encoder has put what, for tests that damage it. */
struct kallsyms_blob {
	GByteArray *bytes;
	uint64_t image_va;
	size_t num_syms, names, markers, tokens, token_index, addresses, base;
};

/*
 * Makes `blob` the image at `image_va`, which holds the sources with something before and after
 * them, like the rest of an image. Its bytes are the caller's.
 */
void kallsyms_encode(struct kallsyms_blob *blob, const struct kallsyms_shape *shape,
		     const GPtrArray *sources, uint64_t image_va);

/* Parts of that. */
void kallsyms_put(struct kallsyms_blob *blob, const void *data, size_t size);
void kallsyms_put_number(struct kallsyms_blob *blob, uint64_t value, size_t bytes);
/* The offset of what is put next. */
size_t kallsyms_align(struct kallsyms_blob *blob, size_t alignment);
void kallsyms_put_tokens(struct kallsyms_blob *blob, const struct kallsyms_shape *shape);
