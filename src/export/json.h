/* SPDX-License-Identifier: MIT */
/* Parts of JSON. json-c keeps all of a document in memory, which is too much for samples. */
#pragma once

#include <glib.h>

/* Appends a string in quotes. Bytes that are not UTF-8 are replaced. NULL is the empty string. */
void vms_export_json_string(GString *out, const char *text);
