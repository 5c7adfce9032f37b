/* SPDX-License-Identifier: MIT */
#include "values.h"
#include "usage.h"
#include <errno.h>
#include <string.h>

#define BYTES_MAX   1e18
#define SECONDS_MAX 1e9

bool value_choose(const char *option, const char *word, const struct choice *choices, int *ret,
		  GError **error)
{
	g_autoptr(GString) words = g_string_new(NULL);
	if (!word)
		return true;
	for (; choices->word; choices++) {
		if (strcmp(choices->word, word) == 0) {
			*ret = choices->value;
			return true;
		}
		g_string_append_printf(words, "%s%s", words->len ? ", " : "", choices->word);
	}
	usage_error(error, "%s %s: it must be one of %s", option, word, words->str);
	return false;
}

const char *value_word(const struct choice *choices, int value)
{
	while (choices->value != value)
		choices++;
	return choices->word;
}

bool value_number(const char *option, const char *text, double min, double max, const char *range,
		  double *ret, GError **error)
{
	char *end;
	if (!text)
		return true;
	*ret = g_ascii_strtod(text, &end);
	if (end != text && *end == '\0' && *ret >= min && *ret <= max)
		return true;
	usage_error(error, "%s %s: it must be %s", option, text, range);
	return false;
}

bool value_unsigned(const char *option, const char *text, unsigned min, unsigned max, unsigned *ret,
		    GError **error)
{
	guint64 number;
	if (!text)
		return true;
	if (!g_ascii_string_to_unsigned(text, 10, min, max, &number, NULL)) {
		usage_error(error, "%s %s: it must be from %u to %u", option, text, min, max);
		return false;
	}
	*ret = (unsigned)number;
	return true;
}

bool value_in_c(const char *text, uint64_t *ret)
{
	char *end;
	errno = 0;
	*ret = g_ascii_strtoull(text, &end, 0);
	return g_ascii_isdigit(text[0]) && *end == '\0' && errno == 0;
}

bool value_seconds(const char *text, uint64_t *ret_ns, GError **error)
{
	double seconds = 0;
	if (!value_number("--time", text, 1e-6, SECONDS_MAX,
			  "a number of seconds, more than 0 and at most 1000000000; leave it out "
			  "to go on until Ctrl-C",
			  &seconds, error))
		return false;
	*ret_ns = (uint64_t)(seconds * 1e9);
	return true;
}

/* A unit, and its size in the smallest unit. */
struct unit {
	const char *name;
	double size;
};

/*
 * Parses a number with one of the units. The last unit has an empty name. False if it is no number
 * from 1 to `max`.
 */
static bool parse_with_unit(const char *text, const struct unit *units, double max, uint64_t *ret)
{
	char *unit;
	double value = g_ascii_strtod(text, &unit);
	while (*units->name && strcmp(unit, units->name) != 0)
		units++;
	value *= units->size;
	if (unit == text || strcmp(unit, units->name) != 0 || !(value >= 1 && value <= max))
		return false;
	*ret = (uint64_t)value;
	return true;
}

bool value_size(const char *option, const char *text, uint64_t *ret, GError **error)
{
	static const struct unit units[] = {
		{ "K", 0x1p10 }, { "M", 0x1p20 }, { "G", 0x1p30 }, { "T", 0x1p40 }, { "", 1 }
	};
	if (!text || parse_with_unit(text, units, BYTES_MAX, ret))
		return true;
	usage_error(error, "%s %s: it must be a size like 500M, 10G or 1T", option, text);
	return false;
}

bool value_duration(const char *option, const char *text, uint64_t *ret_ns, GError **error)
{
	static const struct unit units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "", 1 }
	};
	*ret_ns = 0;
	if (!text || parse_with_unit(text, units, SECONDS_MAX * 1e9, ret_ns))
		return true;
	usage_error(error, "%s %s: it must be a time like 800ns, 10us, 2.5ms or 1s", option, text);
	return false;
}
