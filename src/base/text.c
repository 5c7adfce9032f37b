/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include <glib.h>
#include <stdbool.h>
#include <string.h>

/* True if a terminal or a viewer begins a new line there, as at a line feed. */
static bool breaks_line(gunichar c)
{
	const GUnicodeType type = g_unichar_type(c);
	return type == G_UNICODE_LINE_SEPARATOR || type == G_UNICODE_PARAGRAPH_SEPARATOR;
}

/* True if it has no shape, as a control character, or one that turns the direction of text. */
static bool is_invisible(gunichar c)
{
	return g_unichar_iscntrl(c) || breaks_line(c) || g_unichar_type(c) == G_UNICODE_FORMAT;
}

/* The end of what any terminal shows as it is: most names and lines, whole. */
static const char *end_of_plain(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return text;
}

/*
 * Finds the first bytes that are no printable character, and how many they are. Returns the end of
 * the text if all of it is printable.
 */
static const char *find_unprintable(const char *text, size_t *n)
{
	while (*(text = end_of_plain(text))) {
		const gunichar c = g_utf8_get_char_validated(text, -1);
		const bool is_invalid = c == (gunichar)-1 || c == (gunichar)-2;
		*n = is_invalid ? 1 : (size_t)(g_utf8_next_char(text) - text);
		if (is_invalid || !g_unichar_isprint(c) || breaks_line(c))
			break;
		text += *n;
	}
	return text;
}

void vms_text_clean(char *text)
{
	size_t n;
	for (const char *at = find_unprintable(text, &n); *at; at = find_unprintable(at + n, &n))
		memset(text + (at - text), '?', n);
}

bool vms_text_is_plain(const char *text)
{
	return *end_of_plain(text) == '\0';
}

bool vms_text_is_clean(const char *text)
{
	size_t n;
	return *find_unprintable(text, &n) == '\0';
}

char *vms_text_escape(const char *text)
{
	static const char *const names[] = {
		['\t'] = "\\t", ['\n'] = "\\n", ['\r'] = "\\r", [0x1b] = "\\x1b"
	};
	GString *escaped = g_string_new(NULL);
	while (*text) {
		const gunichar c = g_utf8_get_char_validated(text, -1);
		const bool is_invalid = c == (gunichar)-1 || c == (gunichar)-2;
		const guchar byte = (guchar)*text;
		const char *next = is_invalid ? text + 1 : g_utf8_next_char(text);
		if (byte < G_N_ELEMENTS(names) && names[byte])
			g_string_append(escaped, names[byte]);
		else if (is_invalid || is_invisible(c))
			while (text < next)
				g_string_append_printf(escaped, "\\x%02x", (guchar)*text++);
		else
			g_string_append_len(escaped, text, next - text);
		text = next;
	}
	return g_string_free(escaped, FALSE);
}

char *vms_text_bytes(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	unsigned unit = 0;
	while (value >= 1024 && unit + 1 < G_N_ELEMENTS(units)) {
		value /= 1024;
		unit++;
	}
	return g_strdup_printf(value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value,
			       units[unit]);
}

char *vms_text_time(uint64_t time_ns)
{
	double ms = (double)time_ns / 1e6;
	return ms < 999.5 ? g_strdup_printf("%.3g ms", ms) : g_strdup_printf("%.1f s", ms / 1e3);
}

char *vms_text_clean_lines(const char *sent)
{
	g_auto(GStrv) lines = g_strsplit(sent, "\r\n", -1);
	for (char **line = lines; *line; line++) {
		g_strdelimit(*line, "\t", ' ');
		vms_text_clean(*line);
	}
	return g_strjoinv("\n", lines);
}
