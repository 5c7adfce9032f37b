/* SPDX-License-Identifier: MIT */
#include "base/budget.h"
#include "symbol/packed_symbols.h"
#include <string.h>

static struct vms_symbol_table *sample_table(void)
{
	struct vms_symbol_table *table = vms_symbol_table_new("mod");
	vms_symbol_table_add(table, "late", 0x3000, 0, 'T');
	vms_symbol_table_add(table, "alias_b", 0x1000, 0, 't');
	vms_symbol_table_add(table, "alias_a", 0x1000, 0, 'T');
	vms_symbol_table_add(table, "sized", 0x2000, 0x10, 'T');
	vms_symbol_table_add(table, "twice", 0x2800, 0, 't');
	vms_symbol_table_add(table, "twice", 0x1800, 0, 't');
	vms_symbol_table_finish(table, 0x3100);
	return table;
}

static void check_found(const struct vms_symbol_table *table, uint64_t va, const char *name)
{
	struct vms_symbol symbol;
	if (!name) {
		g_assert_false(vms_symbol_table_find(table, va, &symbol));
		return;
	}
	g_assert_true(vms_symbol_table_find(table, va, &symbol));
	g_assert_cmpstr(symbol.name, ==, name);
	g_assert_cmpuint(symbol.va, <=, va);
	g_assert_cmpuint(va, <, symbol.va + symbol.size);
}

static void test_find(void)
{
	g_autoptr(vms_symbol_table) table = sample_table();
	g_assert_cmpstr(vms_symbol_table_module(table), ==, "mod");
	check_found(table, 0, NULL);
	check_found(table, 0xfff, NULL);
	check_found(table, 0x1000, "alias_b");
	check_found(table, 0x17ff, "alias_b");
	check_found(table, 0x1800, "twice");
	check_found(table, 0x200f, "sized");
	check_found(table, 0x2010, NULL);
	check_found(table, 0x2800, "twice");
	check_found(table, 0x30ff, "late");
	check_found(table, 0x3100, NULL);
	check_found(table, UINT64_MAX, NULL);
}

static void test_order(void)
{
	g_autoptr(vms_symbol_table) table = sample_table();
	const char *const order[] = { "alias_b", "alias_a", "twice", "sized", "twice", "late" };
	g_assert_cmpuint(vms_symbol_table_count(table), ==, G_N_ELEMENTS(order));
	for (size_t i = 0; i < G_N_ELEMENTS(order); i++)
		g_assert_cmpstr(vms_symbol_table_get(table, i).name, ==, order[i]);
	/* Aliases reach equally far. */
	g_assert_cmpuint(vms_symbol_table_get(table, 0).size, ==, 0x800);
	g_assert_cmpuint(vms_symbol_table_get(table, 1).size, ==, 0x800);
}

static void test_lookup(void)
{
	g_autoptr(vms_symbol_table) table = sample_table();
	struct vms_symbol symbol;
	g_assert_true(vms_symbol_table_lookup(table, "alias_a", &symbol));
	g_assert_cmpuint(symbol.va, ==, 0x1000);
	g_assert_cmpint(symbol.type, ==, 'T');
	g_assert_false(vms_symbol_table_lookup(table, "alias", &symbol));
	g_assert_false(vms_symbol_table_lookup(table, "", &symbol));

	size_t cursor = 0;
	g_assert_true(vms_symbol_table_next(table, "twice", &cursor, &symbol));
	g_assert_cmpuint(symbol.va, ==, 0x1800);
	g_assert_true(vms_symbol_table_next(table, "twice", &cursor, &symbol));
	g_assert_cmpuint(symbol.va, ==, 0x2800);
	g_assert_false(vms_symbol_table_next(table, "twice", &cursor, &symbol));
}

/* Symbols do not reach into another part of their module; those with a size say so themselves. */
static void test_bounds(void)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("mod");
	vms_symbol_table_add_bound(table, 0x6000);
	vms_symbol_table_add_bound(table, 0x3000);
	vms_symbol_table_add_bound(table, 0x2000);
	vms_symbol_table_add_bound(table, 0x1000);
	vms_symbol_table_add(table, "first", 0x1000, 0, 't');
	vms_symbol_table_add(table, "alias", 0x1000, 0, 't');
	vms_symbol_table_add(table, "second", 0x1800, 0, 't');
	vms_symbol_table_add(table, "sized", 0x2ff0, 0x20, 't');
	vms_symbol_table_add(table, "last", 0x5000, 0, 'd');
	vms_symbol_table_finish(table, 0x7000);
	check_found(table, 0x17ff, "first");
	g_assert_cmpuint(vms_symbol_table_get(table, 1).size, ==, 0x800);
	check_found(table, 0x1fff, "second");
	check_found(table, 0x2000, NULL);
	check_found(table, 0x300f, "sized");
	check_found(table, 0x5fff, "last");
	check_found(table, 0x6000, NULL);
}

static void test_empty(void)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("empty");
	struct vms_symbol symbol;
	g_assert_false(vms_symbol_table_lookup(table, "x", &symbol));
	vms_symbol_table_finish(table, 0);
	g_assert_cmpuint(vms_symbol_table_count(table), ==, 0);
	g_assert_false(vms_symbol_table_lookup(table, "x", &symbol));
	g_assert_false(vms_symbol_table_find(table, 0, &symbol));
}

/* Many symbols, every one of them found by its name and by its addresses. */
static void test_many(void)
{
	enum { N = 20000 };
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("many");
	for (unsigned i = 0; i < N; i++) {
		unsigned k = (i * 7919u) % N; /* 7919 and N have no common factor */
		g_autofree char *name = g_strdup_printf("symbol_%u", k);
		vms_symbol_table_add(table, name, UINT64_C(0xffffffff81000000) + k * 16, 0, 't');
	}
	vms_symbol_table_finish(table, UINT64_C(0xffffffff81000000) + N * 16);
	for (unsigned k = 0; k < N; k++) {
		uint64_t va = UINT64_C(0xffffffff81000000) + k * 16;
		struct vms_symbol symbol;
		g_autofree char *name = g_strdup_printf("symbol_%u", k);
		g_assert_true(vms_symbol_table_lookup(table, name, &symbol));
		g_assert_cmpuint(symbol.va, ==, va);
		g_assert_cmpuint(symbol.size, ==, 16);
		check_found(table, va + 15, name);
	}
}

/* Of symbols of one address that do not reach equally far, the first that reaches is found. */
static void test_aliases(void)
{
	static const uint64_t sizes[] = { 0x10, 0x8, 0x20, 0x18, 0x20, 0x40 };
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("aliases");
	vms_symbol_table_add(table, "before", 0xf00, 0x400, 'T');
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		g_autofree char *name = g_strdup_printf("alias_%zu", i);
		vms_symbol_table_add(table, name, 0x1000, sizes[i], 'T');
	}
	vms_symbol_table_add(table, "after", 0x1030, 0x4, 'T');
	vms_symbol_table_finish(table, 0x2000);
	check_found(table, 0xfff, "before");
	check_found(table, 0x1000, "alias_0");
	check_found(table, 0x100f, "alias_0");
	check_found(table, 0x1010, "alias_2");
	check_found(table, 0x101f, "alias_2");
	check_found(table, 0x1020, "alias_5");
	check_found(table, 0x102f, "alias_5");
	check_found(table, 0x1030, "after");
	check_found(table, 0x1034, NULL);
}

/* A million names of one address: looking at each of them would never end. */
static void test_many_aliases(void)
{
	enum { N = 1 << 20 };
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("aliases");
	for (unsigned i = 0; i < N; i++)
		vms_symbol_table_add(table, "alias", 0x1000, i + 1, 'T');
	vms_symbol_table_finish(table, 0);
	for (unsigned i = 0; i < N; i++) {
		struct vms_symbol symbol;
		g_assert_true(vms_symbol_table_find(table, 0x1000 + i, &symbol));
		g_assert_cmpuint(symbol.size, ==, i + 1);
	}
}

/*
 * Names that are alike by the usual hash of strings: "ab" and "bA" weigh the same, however they
 * are put together.
 */
static void test_alike_names(void)
{
	enum { PAIRS = 18, N = 1 << PAIRS };
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("alike");
	char name[2 * PAIRS + 1] = { 0 };
	for (unsigned i = 0; i < N; i++) {
		for (unsigned pair = 0; pair < PAIRS; pair++)
			memcpy(name + 2 * pair, i >> pair & 1 ? "ab" : "bA", 2);
		vms_symbol_table_add(table, name, i, 1, 'T');
	}
	g_assert_cmpuint(g_str_hash("ab"), ==, g_str_hash("bA"));
	vms_symbol_table_finish(table, 0);
	for (unsigned i = 0; i < N; i++) {
		struct vms_symbol found, symbol = vms_symbol_table_get(table, i);
		g_assert_true(vms_symbol_table_lookup(table, symbol.name, &found));
		g_assert_cmpuint(found.va, ==, i);
	}
}

static void test_packing(void)
{
	g_autoptr(vms_symbol_table) table = sample_table();
	g_autoptr(GByteArray) packed = g_byte_array_new();
	vms_symbols_pack(table, packed);
	g_autoptr(vms_symbol_table) same =
		vms_symbols_unpack((struct vms_bytes) { packed->data, packed->len }, "mod");
	g_assert_nonnull(same);
	g_assert_cmpuint(vms_symbol_table_count(same), ==, vms_symbol_table_count(table));
	for (size_t i = 0; i < vms_symbol_table_count(table); i++) {
		const struct vms_symbol a = vms_symbol_table_get(table, i);
		const struct vms_symbol b = vms_symbol_table_get(same, i);
		g_assert_cmpstr(a.name, ==, b.name);
		g_assert_cmpuint(a.va, ==, b.va);
		g_assert_cmpuint(a.size, ==, b.size);
		g_assert_cmpint(a.type, ==, b.type);
	}
	/* Cut anywhere, it is malformed. */
	for (size_t size = 0; size < packed->len; size++) {
		g_autofree uint8_t *cut = g_memdup2(packed->data, size);
		g_assert_null(vms_symbols_unpack((struct vms_bytes) { cut, size }, "mod"));
	}
}

static void test_packed_lies(void)
{
	g_autoptr(vms_symbol_table) table = sample_table();
	g_autoptr(GByteArray) packed = g_byte_array_new();
	vms_symbols_pack(table, packed);
	const uint64_t numbers[] = { UINT64_MAX, UINT64_MAX / 24, packed->len, 7 };
	for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
		memcpy(packed->data, &numbers[i], sizeof(numbers[i]));
		g_assert_null(vms_symbols_unpack((struct vms_bytes) { packed->data, packed->len },
						 "mod"));
	}
}

static struct vms_budget *new_budget(uint64_t steps)
{
	const struct vms_budget_options options = { .size = sizeof(options),
						    .processor_ns = steps * VMS_BUDGET_STEP_NS };
	struct vms_budget *budget = vms_budget_new(&options, NULL);
	g_assert_nonnull(budget);
	return budget;
}

/* The steps of a budget that it takes to unpack ten symbols, whose name is a text `n` times. */
static uint64_t steps_of_names(const char *text, size_t n)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("mod");
	g_autoptr(GString) name = g_string_new(NULL);
	while (n-- > 0)
		g_string_append(name, text);
	for (uint64_t i = 0; i < 10; i++)
		vms_symbol_table_add(table, name->str, 0x1000 * i, 0, 'T');
	vms_symbol_table_finish(table, UINT64_MAX);
	g_autoptr(GByteArray) packed = g_byte_array_new();
	vms_symbols_pack(table, packed);
	g_autoptr(vms_budget) budget = new_budget(1000000);
	g_autoptr(vms_symbol_table) same =
		vms_symbols_unpack((struct vms_bytes) { packed->data, packed->len, budget }, "mod");
	g_assert_nonnull(same);
	return vms_budget_spent(budget, VMS_BUDGET_STEPS);
}

/* A step is 20 ns: no name may be so long that it is cleaned for nothing. */
static void test_packed_costs(void)
{
	const uint64_t few = steps_of_names("a", 1), many = steps_of_names("a", 4000);
	g_assert_cmpuint(many - few, >=, 10 * VMS_STEPS_OF_BYTES(3999));
	g_assert_cmpuint(steps_of_names("ä", 2000) - many, >=, 10 * VMS_STEPS_OF_CLEANING(4000));

	const uint8_t unpaid[4096] = { 100 };
	g_autoptr(vms_budget) budget = new_budget(50);
	g_assert_null(
		vms_symbols_unpack((struct vms_bytes) { unpaid, sizeof(unpaid), budget }, "mod"));
	g_assert_false(vms_budget_has_left(budget));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/symbol_table/find", test_find);
	g_test_add_func("/symbol_table/order", test_order);
	g_test_add_func("/symbol_table/lookup", test_lookup);
	g_test_add_func("/symbol_table/bounds", test_bounds);
	g_test_add_func("/symbol_table/empty", test_empty);
	g_test_add_func("/symbol_table/many", test_many);
	g_test_add_func("/symbol_table/aliases", test_aliases);
	g_test_add_func("/symbol_table/many-aliases", test_many_aliases);
	g_test_add_func("/symbol_table/alike-names", test_alike_names);
	g_test_add_func("/symbol_table/packing", test_packing);
	g_test_add_func("/symbol_table/packed-lies", test_packed_lies);
	g_test_add_func("/symbol_table/packed-costs", test_packed_costs);
	return g_test_run();
}
