/* SPDX-License-Identifier: MIT */
/* Makes text fit for a terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Replaces, in place, every byte that is not part of a printable UTF-8 character by '?'. Characters
 * that break a line (U+2028, U+2029) or reorder text (U+202A to U+202E, U+2066 to U+2069 and others
 * without a shape) are not printable.
 */
void vms_text_clean(char *text);
/* True if it is printable ASCII; quick. */
bool vms_text_is_plain(const char *text);
/* True if vms_text_clean would change nothing. */
bool vms_text_is_clean(const char *text);
/*
 * Returns a copy that is one line: control characters and others without a shape are written as C
 * writes them ("\\n", "\\x1b"), and bytes that are no UTF-8, too. Newly allocated.
 */
char *vms_text_escape(const char *text);
/*
 * Cleans lines that end in "\r\n", as a remote sends them: each is cleaned as above, tabs become
 * blanks, and lines end in '\n'. Newly allocated.
 */
char *vms_text_clean_lines(const char *sent);
/* A number of bytes in a form that people read, such as "4.0 GiB". Newly allocated. */
char *vms_text_bytes(uint64_t bytes);
/* A time in a form that people read, such as "10.0 s" or "12.3 ms". Newly allocated. */
char *vms_text_time(uint64_t time_ns);
