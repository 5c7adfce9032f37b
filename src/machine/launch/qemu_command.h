/* SPDX-License-Identifier: MIT */
/* QEMU's command line, as the user gives it and as QEMU reads it. */
#pragma once

#include <stddef.h>

/*
 * Returns how many words of a command come before QEMU's options: all up to QEMU's name. If no word
 * is QEMU's name, the command is a script, and that is one word.
 */
size_t vms_qemu_command_count_leading_words(const char *const *command);
/* Returns a text as the value of an option of QEMU: commas are doubled. Newly allocated. */
char *vms_qemu_command_escape(const char *text);
