/* SPDX-License-Identifier: MIT */
/* Text for a terminal. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of text from a guest: replaces every byte that is not printable ASCII or valid UTF-8 by '?', in
 * place. */
void vms_text_clean(char *text);
/* Of lines from a remote that end in "\r\n": newly allocated, clean, without tabs, ending in '\n'.
 */
char *vms_text_clean_lines(const char *sent);
/* A number of bytes as people read it: "4.0 GiB"; newly allocated. */
char *vms_text_bytes(uint64_t bytes);
