/* SPDX-License-Identifier: MIT */
#include "base/texts.h"

/* Equal texts are one pointer, and what was kept stays what it was. */
static void test_keep(void)
{
	enum { N = 5000 };
	static const char *kept[N];
	struct vms_texts *texts = vms_texts_new();
	for (unsigned i = 0; i < N; i++) {
		g_autofree char *text = g_strdup_printf("text %u", i);
		g_assert_null(vms_texts_find(texts, text));
		kept[i] = vms_texts_keep(texts, text);
		g_assert_true(kept[i] != text);
	}
	for (unsigned i = 0; i < N; i++) {
		g_autofree char *text = g_strdup_printf("text %u", i);
		g_assert_cmpstr(kept[i], ==, text);
		g_assert_true(vms_texts_keep(texts, text) == kept[i]);
		g_assert_true(vms_texts_find(texts, text) == kept[i]);
	}
	g_assert_null(vms_texts_keep(texts, NULL));
	g_assert_true(vms_texts_keep(texts, "") == vms_texts_find(texts, ""));
	vms_texts_free(texts);
	vms_texts_free(NULL);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/texts/keep", test_keep);
	return g_test_run();
}
