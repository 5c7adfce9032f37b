/* SPDX-License-Identifier: MIT */
#include "guest/container.h"
#include "base/text.h"
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#define ID_SIZE	   64 /* hexadecimal digits of a container's id */
#define SHORT_SIZE 12 /* as many of them as its tools show */
#define PARTS_MAX  64

static bool is_id(const char *text)
{
	return strlen(text) == ID_SIZE && strspn(text, "0123456789abcdef") == ID_SIZE;
}

/* Writes the bytes that systemd has escaped as \x2d. */
static char *unescape_text(const char *text)
{
	GString *plain = g_string_new(NULL);
	for (; *text; text++) {
		const bool is_escape = text[0] == '\\' && text[1] == 'x' &&
				       g_ascii_isxdigit(text[2]) && g_ascii_isxdigit(text[3]);
		const char c = is_escape ? (char)(g_ascii_xdigit_value(text[2]) << 4 |
						  g_ascii_xdigit_value(text[3]))
					 : *text;
		g_string_append_c(plain, c ? c : '?');
		text += is_escape ? 3 : 0;
	}
	return g_string_free(plain, FALSE);
}

/* Names a container by one part of the path and the part before it. NULL if it is none. */
static char *name_container(const char *part, const char *before)
{
	static const char *const prefixes[] = { "docker-", "cri-containerd-", "crio-", "libpod-" };
	g_autofree char *name = g_strdup(part);
	if (g_str_has_suffix(name, ".scope"))
		name[strlen(name) - strlen(".scope")] = '\0';
	for (size_t i = 0; i < G_N_ELEMENTS(prefixes); i++)
		if (g_str_has_prefix(name, prefixes[i]) && is_id(name + strlen(prefixes[i])))
			return g_strndup(name, strlen(prefixes[i]) + SHORT_SIZE);
	if (is_id(name))
		return g_strdup_printf("%s-%.*s",
				       strcmp(before, "docker") == 0 ? "docker" : "container",
				       SHORT_SIZE, name);
	if (g_str_has_prefix(name, "lxc.payload.") && name[strlen("lxc.payload.")])
		return g_strconcat("lxc-", name + strlen("lxc.payload."), NULL);
	if (strcmp(before, "lxc") == 0)
		return g_strconcat("lxc-", name, NULL);
	if (g_str_has_prefix(name, "machine-") && g_str_has_suffix(part, ".scope"))
		return unescape_text(name);
	return NULL;
}

char *vms_container_name(const char *path)
{
	g_auto(GStrv) parts = g_strsplit(path, "/", PARTS_MAX);
	const guint n = g_strv_length(parts);
	char *name = NULL;
	for (guint i = n; i-- > 0 && !name;)
		name = *parts[i] ? name_container(parts[i], i > 0 ? parts[i - 1] : "") : NULL;
	for (guint i = n; i-- > 0 && !name;)
		name = g_str_has_suffix(parts[i], ".service") ? unescape_text(parts[i]) : NULL;
	if (!name && path[strspn(path, "/")])
		name = g_strdup(path);
	if (name)
		vms_text_clean(name); /* what was escaped may be a control character */
	return name;
}
