/* SPDX-License-Identifier: MIT */
/* Writes parts of JSON. json-c keeps a whole document in memory, which is too much for samples. */
#pragma once

#include <glib.h>

/* Appends a string in quotes. Bytes that are not UTF-8 are replaced. NULL is the empty string. */
void vms_export_append_json_string(GString *out, const char *text);
