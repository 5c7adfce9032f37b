/* SPDX-License-Identifier: MIT */
#include "agent/calls/callees.h"
#include <glib.h>

#define FIRST UINT64_C(0x401000)
#define STEP  64

static void test_remembers(void)
{
	_Atomic uint64_t *callees = callees_new();
	for (uint64_t i = 0; i < 1000; i++)
		callees_add(callees, FIRST + i * STEP);
	callees_add(callees, FIRST);
	for (uint64_t i = 0; i < 1000; i++) {
		g_assert_true(callees_have(callees, FIRST + i * STEP));
		g_assert_false(callees_have(callees, FIRST + i * STEP + 16));
	}
	g_assert_false(callees_have(callees, 0));
	g_assert_true(callees_have_between(callees, FIRST + 1, FIRST + STEP, 16));
	g_assert_false(callees_have_between(callees, FIRST + 1, FIRST + STEP - 1, 16));
	g_assert_true(callees_have_between(callees, 0, UINT64_MAX, 16));
	callees_free(callees);
}

/* More than there is room for: some are forgotten, none is made up. */
static void test_forgets(void)
{
	_Atomic uint64_t *callees = callees_new();
	uint64_t n = 2000000, kept = 0;
	for (uint64_t i = 0; i < n; i++)
		callees_add(callees, FIRST + i * STEP);
	for (uint64_t i = 0; i < n; i++) {
		kept += callees_have(callees, FIRST + i * STEP);
		g_assert_false(callees_have(callees, FIRST + i * STEP + 16));
	}
	g_assert_cmpuint(kept, >, 0);
	g_assert_cmpuint(kept, <, n);
	callees_free(callees);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/callees/remembers", test_remembers);
	g_test_add_func("/callees/forgets", test_forgets);
	return g_test_run();
}
