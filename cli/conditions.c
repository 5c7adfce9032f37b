/* SPDX-License-Identifier: MIT */
#include "conditions.h"

/* False if it closes a parenthesis that it has not opened: joined, it would mean something else. */
static bool is_closed(const char *text)
{
	unsigned depth = 0;
	char quote = 0;
	for (; *text; text++) {
		if (quote && *text == '\\' && text[1])
			text++;
		else if (quote)
			quote = *text == quote ? 0 : quote;
		else if (*text == '"' || *text == '\'')
			quote = *text;
		else if (*text == '(')
			depth++;
		else if (*text == ')' && depth-- == 0)
			return false;
	}
	return depth == 0 && !quote;
}

bool conditions_join(const char *option, const char *task, char *const *texts, char **ret,
		     GError **error)
{
	g_autoptr(GString) all = g_string_new(NULL);
	const bool joins = texts && texts[0] && (task || texts[1]);
	if (task)
		g_string_printf(all, "pid == %s", task);
	for (char *const *text = texts; text && *text; text++) {
		if (joins && (!**text || !is_closed(*text))) {
			usage_error(error, "%s \"%s\": %s", option, *text,
				    **text ? "a quote or a parenthesis has no partner"
					   : "the expression is empty");
			return false;
		}
		g_string_append_printf(all, joins ? "%s(%s)" : "%s%s", all->len ? " && " : "",
				       *text);
	}
	*ret = all->len || (texts && texts[0]) ? g_strdup(all->str) : NULL;
	return true;
}
