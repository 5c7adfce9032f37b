/* SPDX-License-Identifier: MIT */
#include "export/json.h"

void vms_export_append_json_string(GString *out, const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text ? text : "", -1);

	g_string_append_c(out, '"');
	for (const char *p = valid; *p; p++) {
		if (*p == '"' || *p == '\\')
			g_string_append_printf(out, "\\%c", *p);
		else if ((unsigned char)*p < 0x20)
			g_string_append_printf(out, "\\u%04x", (unsigned)*p);
		else
			g_string_append_c(out, *p);
	}
	g_string_append_c(out, '"');
}
