/* SPDX-License-Identifier: MIT */
#include "btf_encoder.h"
#include <string.h>

void put(struct encoder *encoder, uint32_t value)
{
	value = GUINT32_TO_LE(value);
	g_byte_array_append(encoder->types, (const uint8_t *)&value, sizeof(value));
}

uint32_t name_offset(struct encoder *encoder, const char *name)
{
	if (!*name)
		return 0;
	uint32_t offset = (uint32_t)encoder->strings->len;
	g_string_append_len(encoder->strings, name, (gssize)strlen(name) + 1);
	return offset;
}

uint32_t put_type(struct encoder *encoder, const char *name, unsigned kind, unsigned vlen,
		  bool kflag, uint32_t size)
{
	put(encoder, name_offset(encoder, name));
	put(encoder, (uint32_t)kflag << 31 | kind << 24 | vlen);
	put(encoder, size);
	return ++encoder->n_types;
}

void put_member(struct encoder *encoder, const char *name, uint32_t type, uint32_t offset)
{
	put(encoder, name_offset(encoder, name));
	put(encoder, type);
	put(encoder, offset);
}

uint32_t put_variable(struct encoder *encoder, const char *name, uint32_t type)
{
	const uint32_t variable = put_type(encoder, name, VAR, 0, false, type);
	put(encoder, 1); /* global */
	return variable;
}

void put_place(struct encoder *encoder, uint32_t variable, uint32_t offset, uint32_t size)
{
	put(encoder, variable);
	put(encoder, offset);
	put(encoder, size);
}

struct encoder encoder_new(void)
{
	struct encoder encoder = { g_byte_array_new(), g_string_new(NULL), 0 };
	g_string_append_c(encoder.strings, 0);
	return encoder;
}

GByteArray *finish(struct encoder *encoder)
{
	GByteArray *blob = g_byte_array_new();
	const uint32_t header[6] = { GUINT32_TO_LE(0x0001eb9f),
				     GUINT32_TO_LE(24),
				     0,
				     GUINT32_TO_LE(encoder->types->len),
				     GUINT32_TO_LE(encoder->types->len),
				     GUINT32_TO_LE((uint32_t)encoder->strings->len) };
	g_byte_array_append(blob, (const uint8_t *)header, sizeof(header));
	g_byte_array_append(blob, encoder->types->data, encoder->types->len);
	g_byte_array_append(blob, (const uint8_t *)encoder->strings->str,
			    (guint)encoder->strings->len);
	g_byte_array_unref(encoder->types);
	g_string_free(encoder->strings, true);
	return blob;
}

/* The type of a member: made anew each time, which BTF allows. */
static uint32_t put_sized(struct encoder *encoder, uint32_t size)
{
	if (size == 1 || size == 2 || size == 4 || size == 8) {
		uint32_t integer = put_type(encoder, "", INT, 0, false, size);
		put(encoder, size * 8);
		return integer;
	}
	uint32_t byte = put_sized(encoder, 1);
	uint32_t array = put_type(encoder, "", ARRAY, 0, false, 0);
	put(encoder, byte), put(encoder, byte), put(encoder, size);
	return array;
}

static uint32_t put_member_type(struct encoder *encoder, const struct encoder_member *member)
{
	unsigned n = 0;
	while (member->in && member->in[n].name)
		n++;
	return n ? put_structure(encoder, "", member->size, n, member->in)
		 : put_sized(encoder, member->size);
}

uint32_t put_structure(struct encoder *encoder, const char *name, uint32_t size, unsigned n,
		       const struct encoder_member *members)
{
	g_autofree uint32_t *types = g_new(uint32_t, n + 1);
	for (unsigned i = 0; i < n; i++)
		types[i] = put_member_type(encoder, &members[i]);
	uint32_t structure = put_type(encoder, name, STRUCT, n, false, size);
	for (unsigned i = 0; i < n; i++)
		put_member(encoder, members[i].name, types[i], members[i].offset * 8);
	return structure;
}
