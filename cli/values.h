/* SPDX-License-Identifier: MIT */
/* Parses the values of options. An error names the option and the values that it may have. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A word and the value that it stands for. An array of them ends with a NULL word. */
struct choice {
	const char *word;
	int value;
};

/* Gets the value of an option's word. Leaves `*ret` if `word` is NULL. */
bool value_choose(const char *option, const char *word, const struct choice *choices, int *ret,
		  GError **error);
/* Returns the word of a value, which must be one of the choices. */
const char *value_word(const struct choice *choices, int value);
/*
 * Parses a number from `min` to `max`. `range` says these limits in words, for the error. Leaves
 * `*ret` if `text` is NULL.
 */
bool value_number(const char *option, const char *text, double min, double max, const char *range,
		  double *ret, GError **error);
/* The same for a whole number. */
bool value_unsigned(const char *option, const char *text, unsigned min, unsigned max, unsigned *ret,
		    GError **error);
/* Parses a whole number in C notation, like 0x10. False if it is none, or has more than 64 bits. */
bool value_in_c(const char *text, uint64_t *ret);
/* Parses the seconds of --time. Gets 0 ns if `text` is NULL: the command runs until stopped. */
bool value_seconds(const char *text, uint64_t *ret_ns, GError **error);
/* Parses a size like "500M" or "10G", in bytes without a unit. Leaves `*ret` if `text` is NULL. */
bool value_size(const char *option, const char *text, uint64_t *ret, GError **error);
/* Parses a time like "10us", in ns without a unit. Gets 0 if `text` is NULL. */
bool value_duration(const char *option, const char *text, uint64_t *ret_ns, GError **error);
