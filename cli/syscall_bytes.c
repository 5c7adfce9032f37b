/* SPDX-License-Identifier: MIT */
#include "syscall_bytes.h"

#include <string.h>

uint64_t syscall_read_number(const void *bytes, size_t size, size_t at, size_t n)
{
	uint64_t number = 0;
	if (at <= size && n <= size - at && n <= sizeof(number))
		memcpy(&number, (const uint8_t *)bytes + at, n);
	return number;
}

int64_t syscall_extend_sign(uint64_t number, unsigned size)
{
	const unsigned shift = 64 - 8 * size;
	return (int64_t)(number << shift) >> shift;
}

void syscall_append_signed(GString *out, int64_t number)
{
	g_string_append_printf(out, "%" G_GINT64_FORMAT, number);
}

void syscall_append_address(GString *out, uint64_t address)
{
	if (address)
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", address);
	else
		g_string_append(out, "NULL");
}

/* Appends a byte like in a string of C: as it is, as an escape with a letter, or in octal. */
static void append_byte(GString *out, uint8_t byte, bool digit_follows)
{
	static const char letters[] = "tnvfr"; /* from '\t' on */
	if (byte == '"' || byte == '\\')
		g_string_append_printf(out, "\\%c", byte);
	else if (byte >= ' ' && byte <= '~')
		g_string_append_c(out, (char)byte);
	else if (byte >= '\t' && byte <= '\r')
		g_string_append_printf(out, "\\%c", letters[byte - '\t']);
	else
		g_string_append_printf(out, digit_follows ? "\\%03o" : "\\%o", byte);
}

void syscall_append_bytes(GString *out, const void *data, size_t size, bool cut)
{
	const uint8_t *bytes = data;
	g_string_append_c(out, '"');
	for (size_t i = 0; i < size; i++)
		append_byte(out, bytes[i], i + 1 < size && g_ascii_isdigit((char)bytes[i + 1]));
	g_string_append(out, cut ? "\"..." : "\"");
}

void syscall_append_hex_bytes(GString *out, const void *data, size_t size, bool cut)
{
	const uint8_t *bytes = data;
	g_string_append_c(out, '"');
	for (size_t i = 0; i < size; i++)
		g_string_append_printf(out, "\\x%02x", bytes[i]);
	g_string_append(out, cut ? "\"..." : "\"");
}

void syscall_append_string(GString *out, const void *bytes, size_t size)
{
	syscall_append_bytes(out, bytes, size ? strnlen(bytes, size) : 0, false);
}

void syscall_append_bits(GString *out, const void *data, size_t size, const char *between)
{
	const uint8_t *bytes = data;
	bool is_first = true;
	g_string_append_c(out, '[');
	for (size_t i = 0; i < size * 8; i++) {
		if (!(bytes[i / 8] >> i % 8 & 1))
			continue;
		g_string_append_printf(out, "%s%zu", is_first ? "" : between, i);
		is_first = false;
	}
	g_string_append_c(out, ']');
}
