/* SPDX-License-Identifier: MIT */
#include "values.h"
#include "session.h"
#include <string.h>

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
	usage_error(error, "%s %s: it is one of %s", option, word, words->str);
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

bool value_seconds(const char *text, uint64_t *ret_ns, GError **error)
{
	double seconds = 0;
	if (!value_number("--time", text, 1e-6, SECONDS_MAX,
			  "more than 0 s; leave it out to go on until Ctrl-C", &seconds, error))
		return false;
	*ret_ns = (uint64_t)(seconds * 1e9);
	return true;
}

bool value_duration(const char *option, const char *text, uint64_t *ret_ns, GError **error)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	char *unit = NULL;
	double value = text ? g_ascii_strtod(text, &unit) : 0;
	*ret_ns = 0;
	if (!text)
		return true;
	for (size_t i = 0; unit != text && value > 0 && i < G_N_ELEMENTS(units); i++) {
		double ns = value * units[i].ns;
		if (strcmp(unit, units[i].name) == 0 && ns >= 1 && ns <= SECONDS_MAX * 1e9) {
			*ret_ns = (uint64_t)ns;
			return true;
		}
	}
	usage_error(error, "%s %s: it must be a time like 800ns, 10us, 2.5ms or 1s", option, text);
	return false;
}
