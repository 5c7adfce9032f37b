/* SPDX-License-Identifier: MIT */
/* The option --memory: where the memory of a machine lies in its process. */
#pragma once

#include <glib.h>
#include <stdbool.h>

/*
 * Parses PA:SIZE@VA of each option, as struct vms_ram_place, sorted. Numbers are in C notation, and
 * a size may have a unit. Errors: usage (no such form, or they overlap).
 */
GArray *memory_option_parse(char **options, GError **error);
