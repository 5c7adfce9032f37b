/* SPDX-License-Identifier: MIT */
#include "export/protobuf.h"
#include <string.h>

/* https://protobuf.dev/programming-guides/encoding/ */
enum wire_type { WIRE_VARINT = 0, WIRE_BYTES = 2 };

static size_t encode_varint(uint64_t number, uint8_t bytes[10])
{
	size_t n = 0;

	for (; number >= 0x80; number >>= 7)
		bytes[n++] = (uint8_t)(number | 0x80);
	bytes[n++] = (uint8_t)number;
	return n;
}

static void append_varint(GString *out, uint64_t number)
{
	uint8_t bytes[10];
	size_t n = encode_varint(number, bytes);

	g_string_append_len(out, (const char *)bytes, (gssize)n);
}

static void append_tag(GString *out, unsigned field, enum wire_type type)
{
	append_varint(out, (uint64_t)field << 3 | type);
}

static void append_bytes(GString *out, unsigned field, const char *bytes, size_t size)
{
	append_tag(out, field, WIRE_BYTES);
	append_varint(out, size);
	g_string_append_len(out, bytes, (gssize)size);
}

void vms_protobuf_append_any_number(GString *out, unsigned field, uint64_t number)
{
	append_tag(out, field, WIRE_VARINT);
	append_varint(out, number);
}

void vms_protobuf_append_number(GString *out, unsigned field, uint64_t number)
{
	if (number)
		vms_protobuf_append_any_number(out, field, number);
}

void vms_protobuf_append_text(GString *out, unsigned field, const char *text)
{
	if (text && *text)
		append_bytes(out, field, text, strlen(text));
}

void vms_protobuf_append_message(GString *out, unsigned field, const GString *message)
{
	append_bytes(out, field, message->str, message->len);
}

void vms_protobuf_append_packed(GString *out, unsigned field, const uint64_t *numbers, size_t n)
{
	uint8_t bytes[10];
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += encode_varint(numbers[i], bytes);
	if (n == 0)
		return;
	append_tag(out, field, WIRE_BYTES);
	append_varint(out, size);
	for (size_t i = 0; i < n; i++)
		append_varint(out, numbers[i]);
}
