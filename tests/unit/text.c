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
	check("a\u2028b\u2029c", "a???b???c"); /* a line and a paragraph end there */
	check("\u202ax\u202e", "???x???");     /* the direction of text turns there */
	check("\u2066x\u2069", "???x???");
	check("\u200bx\ufeff", "???x???"); /* without a shape */
	check("日本 عربي 😀", "日本 عربي 😀");
}

static void check_time(uint64_t time_ns, const char *expected)
{
	g_autofree char *text = vms_text_time(time_ns);
	g_assert_cmpstr(text, ==, expected);
}

static void test_time(void)
{
	check_time(0, "0 ms");
	check_time(94 * 1000 * 1000 + 320 * 1000, "94.3 ms");
	check_time(999400000, "999 ms");
	check_time(999600000, "1.0 s");
	check_time(UINT64_C(86400) * 1000 * 1000 * 1000, "86400.0 s");
}

static void test_escape(void)
{
	g_autofree char *escaped = vms_text_escape("a\nb\t\x1b[0m\x01\xc2\x85 \xff ä\\");
	g_assert_cmpstr(escaped, ==, "a\\nb\\t\\x1b[0m\\x01\\xc2\\x85 \\xff ä\\");
	g_autofree char *turned = vms_text_escape("a\u2028b\u202ec");
	g_assert_cmpstr(turned, ==, "a\\xe2\\x80\\xa8b\\xe2\\x80\\xaec");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/text/clean", test_clean);
	g_test_add_func("/text/escape", test_escape);
	g_test_add_func("/text/time", test_time);
	return g_test_run();
}
