/* SPDX-License-Identifier: MIT */
#include "base/options.h"

#include <string.h>
#include <vmscope/error.h>

/* The same options as of three versions of the library. */
struct old_options {
	size_t size;
	unsigned depth;
};
struct options {
	size_t size;
	unsigned depth;
	const char *name;
};
struct new_options {
	size_t size;
	unsigned depth;
	const char *name;
	unsigned extra;
};

static bool copy(const void *given, struct options *ret, GError **error)
{
	memset(ret, 0xff, sizeof(*ret));
	return vms_options_copy(given, ret, sizeof(*ret), "test_options", error);
}

static void test_same(void)
{
	const struct options given = { .size = sizeof(given), .depth = 3, .name = "name" };
	struct options got;
	g_assert_true(copy(&given, &got, NULL));
	g_assert_cmpmem(&got, sizeof(got), &given, sizeof(given));
}

static void test_none(void)
{
	const struct options expected = { .size = sizeof(expected) };
	struct options got;
	g_assert_true(copy(NULL, &got, NULL));
	g_assert_cmpmem(&got, sizeof(got), &expected, sizeof(expected));
}

static void test_older_caller(void)
{
	const struct old_options given = { .size = G_STRUCT_OFFSET(struct options, name),
					   .depth = 3 };
	struct options got;
	g_assert_true(copy(&given, &got, NULL));
	g_assert_cmpuint(got.size, ==, sizeof(got));
	g_assert_cmpuint(got.depth, ==, 3);
	g_assert_null(got.name);
}

static void test_newer_caller(void)
{
	struct new_options given = { .size = sizeof(given), .depth = 3, .name = "name" };
	struct options got;
	g_autoptr(GError) error = NULL;
	g_assert_true(copy(&given, &got, NULL));
	g_assert_cmpstr(got.name, ==, "name");
	given.extra = 1;
	g_assert_false(copy(&given, &got, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	g_assert_nonnull(strstr(error->message, "struct test_options"));
}

static void test_bad_size(void)
{
	static const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, 1 << 20, G_MAXSIZE };
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		const struct options given = { .size = sizes[i] };
		struct options got;
		g_autoptr(GError) error = NULL;
		g_assert_false(copy(&given, &got, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/options/same", test_same);
	g_test_add_func("/options/none", test_none);
	g_test_add_func("/options/older-caller", test_older_caller);
	g_test_add_func("/options/newer-caller", test_newer_caller);
	g_test_add_func("/options/bad-size", test_bad_size);
	return g_test_run();
}
