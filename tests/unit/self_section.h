/* SPDX-License-Identifier: MIT */
/* Sections of the program that runs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the bytes of a section of this very program, newly allocated. There must be one. */
uint8_t *self_section(const char *name, size_t *size);
