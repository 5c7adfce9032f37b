/* SPDX-License-Identifier: MIT */
#include "symbol/perf_map.h"

static struct vms_symbol_table *parse(const char *text)
{
	return vms_perf_map_parse((struct vms_bytes) { (const uint8_t *)text, strlen(text) },
				  "map");
}

static void check(const struct vms_symbol_table *table, uint64_t va, const char *name)
{
	struct vms_symbol symbol;
	const bool found = vms_symbol_table_find(table, va, &symbol);
	g_assert_cmpstr(found ? symbol.name : NULL, ==, name);
}

static void test_lines(void)
{
	g_autoptr(vms_symbol_table) table = parse("1000 100 plain\n"
						  "0x2000 0x10 with prefix and blanks\n"
						  "AbC0 8 upper\r\n"
						  "3000  8  many blanks\n"
						  "4000 8 no newline");
	g_assert_cmpuint(vms_symbol_table_count(table), ==, 5);
	check(table, 0xfff, NULL);
	check(table, 0x1000, "plain");
	check(table, 0x10ff, "plain");
	check(table, 0x1100, NULL);
	check(table, 0x2001, "with prefix and blanks");
	check(table, 0xabc0, "upper");
	check(table, 0x3000, "many blanks");
	check(table, 0x4007, "no newline");
}

/* Code that was replaced: what was said last of an address is true. */
static void test_later_lines(void)
{
	g_autoptr(vms_symbol_table) table = parse("1000 100 first\n"
						  "2000 100 stays\n"
						  "1080 10 second\n"
						  "1090 10 third\n"
						  "1080 10 second again\n");
	g_assert_cmpuint(vms_symbol_table_count(table), ==, 3);
	check(table, 0x1000, NULL);
	check(table, 0x1085, "second again");
	check(table, 0x1095, "third");
	check(table, 0x2000, "stays");
}

static void test_nonsense(void)
{
	static const char *const lines[] = {
		"",
		"\n\n\n",
		"1000",
		"1000 10",
		"1000 10 ",
		"x 10 name",
		"1000 0 name",
		"1000 y name",
		" 1000 1 a",
		"-1 10 name",
		"1000\t10\tname",
		"10000000000000000 1 name",
		"0x 1 name",
		"1000 0x n",
		"fffffffffffffff0 20 beyond the end",
	};
	for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
		g_autoptr(vms_symbol_table) table = parse(lines[i]);
		g_assert_cmpuint(vms_symbol_table_count(table), ==, 0);
	}
	static const char hole[] = "1000 10 be\0fore\n2000 10 behind\n";
	g_autoptr(vms_symbol_table) table = vms_perf_map_parse(
		(struct vms_bytes) { (const uint8_t *)hole, sizeof(hole) - 1 }, "map");
	g_assert_cmpuint(vms_symbol_table_count(table), ==, 1);
	g_autoptr(vms_symbol_table) unsafe = parse("1000 10 \x1b[31mred\n");
	g_assert_cmpstr(vms_symbol_table_get(unsafe, 0).name, ==, "?[31mred");
}

/* Of a map that is too large, the last lines count. */
static void test_many(void)
{
	g_autoptr(GString) text = g_string_new(NULL);
	const unsigned n = 600000;
	for (unsigned i = 0; i < n; i++)
		g_string_append_printf(text, "%x 10 f%u\n", 0x1000 + i * 16, i);
	g_autoptr(vms_symbol_table) table = parse(text->str);
	g_assert_cmpuint(vms_symbol_table_count(table), ==, 1u << 19);
	check(table, 0x1000 + (n - 1) * 16, "f599999");
	check(table, 0x1000, NULL);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/perf_map/lines", test_lines);
	g_test_add_func("/perf_map/later-lines", test_later_lines);
	g_test_add_func("/perf_map/nonsense", test_nonsense);
	g_test_add_func("/perf_map/many", test_many);
	return g_test_run();
}
