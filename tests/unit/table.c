/* SPDX-License-Identifier: MIT */
#include <json-c/json.h>
#include <string.h>
#include <vmscope/table.h>

static const struct vms_column columns[] = { { "name", VMS_COLUMN_TEXT },
					     { "n", VMS_COLUMN_NUMBER },
					     { "va", VMS_COLUMN_ADDRESS },
					     { "size", VMS_COLUMN_BYTES },
					     { NULL } };

static struct vms_table *make_table(void)
{
	struct vms_table *table = vms_table_new(columns);
	vms_table_add(table, "a", UINT64_C(7), UINT64_C(0xffffffff81000000), UINT64_C(4) << 30);
	vms_table_add(table, NULL, UINT64_C(12345), UINT64_C(0), UINT64_C(1536));
	return table;
}

static void test_text(void)
{
	g_autoptr(vms_table) table = make_table();
	g_autoptr(GString) out = g_string_new(NULL);
	vms_table_text(table, out);
	g_assert_cmpstr(out->str, ==,
			"NAME      N                  VA     SIZE\n"
			"a         7  0xffffffff81000000    4 GiB\n"
			"-     12345                 0x0  1.5 KiB\n");
}

/* A name of thousands of characters does not make all rows as long. */
static void test_long_cell(void)
{
	g_autoptr(vms_table) table = make_table();
	g_autoptr(GString) out = g_string_new(NULL), expected = g_string_new(NULL);
	g_autofree char *name = g_strnfill(4000, 'x');
	vms_table_add(table, name, UINT64_C(1), UINT64_C(0), UINT64_C(0));
	vms_table_text(table, out);
	g_string_printf(expected,
			"NAME      N                  VA     SIZE\n"
			"a         7  0xffffffff81000000    4 GiB\n"
			"-     12345                 0x0  1.5 KiB\n"
			"%s      1                 0x0      0 B\n",
			name);
	g_assert_cmpstr(out->str, ==, expected->str);
}

static void test_json(void)
{
	g_autoptr(vms_table) table = make_table();
	g_autoptr(GString) out = g_string_new(NULL);
	vms_table_json(table, out);
	json_object *rows = json_tokener_parse(out->str);
	g_assert_cmpuint(json_object_array_length(rows), ==, 2);
	json_object *row = json_object_array_get_idx(rows, 0);
	g_assert_cmpstr(json_object_get_string(json_object_object_get(row, "va")), ==,
			"0xffffffff81000000");
	g_assert_cmpuint(json_object_get_uint64(json_object_object_get(row, "size")), ==,
			 UINT64_C(4) << 30);
	json_object *name;
	row = json_object_array_get_idx(rows, 1);
	g_assert_true(json_object_object_get_ex(row, "name", &name) && name == NULL);
	json_object_put(rows);
}

/* A number that is not known is none of the numbers that are. */
static void test_unknown_number(void)
{
	g_autoptr(vms_table) table = vms_table_new(columns);
	g_autoptr(GString) text = g_string_new(NULL), json = g_string_new(NULL);
	vms_table_add(table, "a", VMS_TABLE_UNKNOWN, UINT64_MAX, UINT64_C(0));
	vms_table_add(table, "b", UINT64_C(0), UINT64_C(0), VMS_TABLE_UNKNOWN);
	vms_table_text(table, text);
	g_assert_cmpstr(text->str, ==,
			"NAME  N                  VA  SIZE\n"
			"a     -  0xffffffffffffffff   0 B\n"
			"b     0                 0x0     -\n");
	vms_table_json(table, json);
	json_object *rows = json_tokener_parse(json->str), *n;
	json_object *row = json_object_array_get_idx(rows, 0);
	g_assert_true(json_object_object_get_ex(row, "n", &n) && n == NULL);
	g_assert_cmpstr(json_object_get_string(json_object_object_get(row, "va")), ==,
			"0xffffffffffffffff");
	row = json_object_array_get_idx(rows, 1);
	g_assert_true(json_object_object_get_ex(row, "size", &n) && n == NULL);
	json_object_put(rows);
}

static void test_hostile_text(void)
{
	g_autoptr(vms_table) table = vms_table_new(columns);
	g_autoptr(GString) out = g_string_new(NULL);
	vms_table_add(table, "\"\\\n%s%n", UINT64_C(0), UINT64_C(0), UINT64_C(0));
	vms_table_json(table, out);
	json_object *rows = json_tokener_parse(out->str);
	json_object *row = json_object_array_get_idx(rows, 0);
	g_assert_cmpstr(json_object_get_string(json_object_object_get(row, "name")), ==,
			"\"\\\n%s%n");
	json_object_put(rows);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/table/text", test_text);
	g_test_add_func("/table/long-cell", test_long_cell);
	g_test_add_func("/table/json", test_json);
	g_test_add_func("/table/unknown-number", test_unknown_number);
	g_test_add_func("/table/hostile-text", test_hostile_text);
	return g_test_run();
}
