/* SPDX-License-Identifier: MIT */
/*
 * The path of a control group, of any content: the name of its container is fit for a terminal.
 *
 * Covers: src/guest/container.c.
 */
#include "guest/container.h"
#include "base/text.h"
#include <glib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autofree char *path = g_strndup((const char *)data, size);
	g_autofree char *name = vms_container_name(path);
	g_assert_cmpint(name != NULL, ==, path[strspn(path, "/")] != '\0');
	if (!name)
		return 0;
	g_autofree char *clean = g_strdup(name);
	vms_text_clean(clean);
	g_assert_cmpstr(name, ==, clean);
	g_assert_cmpuint(strlen(name), >, 0);
	g_assert_cmpuint(strlen(name), <=, strlen(path) + strlen("container-"));
	return 0;
}
