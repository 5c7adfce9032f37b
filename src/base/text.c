/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include <glib.h>
#include <stdbool.h>
#include <string.h>

void vms_text_clean(char *text)
{
	while (*text) {
		gunichar c = g_utf8_get_char_validated(text, -1);
		bool invalid = c == (gunichar)-1 || c == (gunichar)-2;
		if (invalid || !g_unichar_isprint(c)) {
			size_t bytes = invalid ? 1 : (size_t)(g_utf8_next_char(text) - text);
			memset(text, '?', bytes);
			text += bytes;
		} else {
			text = g_utf8_next_char(text);
		}
	}
}
