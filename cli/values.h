/* SPDX-License-Identifier: MIT */
/* Values of options: what they may be, and what is said of one that may not. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A word and what it stands for; a list of them ends with a NULL word. */
struct choice {
	const char *word;
	int value;
};

/* What the word of an option stands for; `*ret` stays where there is none. */
bool value_choose(const char *option, const char *word, const struct choice *choices, int *ret,
		  GError **error);
const char *value_word(const struct choice *choices, int value);
/* A number from `min` to `max`, which `range` says in words; `*ret` stays where `text` is NULL. */
bool value_number(const char *option, const char *text, double min, double max, const char *range,
		  double *ret, GError **error);
/* A whole number likewise. */
bool value_unsigned(const char *option, const char *text, unsigned min, unsigned max, unsigned *ret,
		    GError **error);
/* A whole number as C writes it, 0x10 too. False: it is none, or more than 64 bits. */
bool value_in_c(const char *text, uint64_t *ret);
/* Seconds of --time; 0 without it: until stopped. */
bool value_seconds(const char *text, uint64_t *ret_ns, GError **error);
/* A number of bytes with its unit, "500M" or "10G"; `*ret` stays where `text` is NULL. */
bool value_size(const char *option, const char *text, uint64_t *ret, GError **error);
/* A time with its unit, "10us"; ns without. 0 where `text` is NULL. */
bool value_duration(const char *option, const char *text, uint64_t *ret_ns, GError **error);
