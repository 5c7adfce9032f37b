/* SPDX-License-Identifier: MIT */
#include "json_values.h"
#include <glib.h>

struct json_object *json_address(uint64_t va)
{
	char text[24];
	g_snprintf(text, sizeof(text), "0x%" G_GINT64_MODIFIER "x", va);
	return json_object_new_string(text);
}
