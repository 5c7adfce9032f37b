/* SPDX-License-Identifier: MIT */
/* Writes ELF files that have symbols and no code, for tests that need files of their own choice. */
#pragma once

#include <stdint.h>

/* A file of one segment, at address 0, that has one function. */
void elf_encoder_write(const char *path, const char *function, uint64_t va, uint64_t size);
