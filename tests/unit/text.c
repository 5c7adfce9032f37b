/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include <glib.h>
#include <string.h>

static void check(const char *from, const char *to)
{
	g_autofree char *text = g_strdup(from);
	vms_text_clean(text);
	g_assert_cmpstr(text, ==, to);
}

static void test_clean(void)
{
	check("kworker/0:1", "kworker/0:1");
	check("\033[2Jbad\a", "?[2Jbad?");
	check("caf\xc3\xa9", "caf\xc3\xa9");
	check("cut\xc3", "cut?");
	check("\xff\xfe", "??");
	check("\xc2\x9b", "??"); /* a control character in two bytes */
	check("", "");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/text/clean", test_clean);
	return g_test_run();
}
