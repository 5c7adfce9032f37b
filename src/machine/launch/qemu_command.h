/* SPDX-License-Identifier: MIT */
/* Helpers for QEMU's command line. */
#pragma once

#include <stddef.h>

/*
 * Returns how many words of a command come before QEMU's options: all up to QEMU's name. If no word
 * is QEMU's name, the command is a script, and the first word is its name.
 */
size_t vms_qemu_command_count_leading_words(const char *const *command);
/* Returns a text as a value for an option of QEMU, with doubled commas. Newly allocated. */
char *vms_qemu_command_escape(const char *text);
