/* SPDX-License-Identifier: MIT */
/* Encodes records of the Fuchsia Trace Format. */
#pragma once

#include "capture/fxt.h"
#include <glib.h>

/*
 * Appends a record to `out`. Strings without an index are written into the record. False, with
 * nothing appended, if the format has no room for it: a string or a blob is too long, a number too
 * large for its field, or there are too many arguments.
 */
bool vms_fxt_write(GByteArray *out, const struct vms_fxt_record *record);

/* A string that is written into the record. Longer than VMS_FXT_STRING_MAX it is cut. */
struct vms_fxt_string vms_fxt_inline(const char *text);
