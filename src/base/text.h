/* SPDX-License-Identifier: MIT */
/* Text from a guest, made fit for a terminal. */
#pragma once

#include <stddef.h>

/* Replaces every byte that is not printable ASCII or valid UTF-8 by '?', in place. */
void vms_text_clean(char *text);
