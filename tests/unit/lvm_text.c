/* SPDX-License-Identifier: MIT */
/* The text of a volume group: what its parser finds, and what it refuses. */
#include "disk/lvm_text.h"
#include "base/budget.h"
#include "fake_disk.h"

static struct vms_lvm_text *parse(const char *text)
{
	return vms_lvm_text_parse((struct vms_bytes) { (const uint8_t *)text, strlen(text), NULL });
}

static void test_lookups(void)
{
	static const char text[] = "# a comment: { \"\n"
				   "vg {\n"
				   "\tid = \"a-b\" # another }\n"
				   "\tseqno=18446744073709551615\n"
				   "\tflags = [\"READ\", 7 ,\"x\"]\n"
				   "\tnone = []\n"
				   "\tinner{deep { value=\"\\\"q\\\\\" }}\n"
				   "\tname.with-signs_1+/ = 5\n"
				   "}\n"
				   "creation_time = 12";
	struct vms_lvm_text *parsed = parse(text);
	uint64_t number;
	g_assert_nonnull(parsed);
	const struct vms_lvm_node *root = parsed->root;
	const struct vms_lvm_node *group = vms_lvm_node_section(root, "vg");
	g_assert_cmpuint(root->children->len, ==, 2);
	g_assert_cmpstr(vms_lvm_node_string(group, "id"), ==, "a-b");
	g_assert_true(vms_lvm_node_number(group, "seqno", &number));
	g_assert_cmpuint(number, ==, UINT64_MAX);
	g_assert_cmpstr(vms_lvm_node_item(group, "flags", 0), ==, "READ");
	g_assert_cmpstr(vms_lvm_node_item(group, "flags", 1), ==, "7");
	g_assert_cmpstr(vms_lvm_node_item(group, "flags", 2), ==, "x");
	g_assert_null(vms_lvm_node_item(group, "flags", 3));
	g_assert_null(vms_lvm_node_string(group, "none"));
	g_assert_cmpstr(vms_lvm_node_string(group, "name.with-signs_1+/"), ==, "5");
	const struct vms_lvm_node *deep =
		vms_lvm_node_section(vms_lvm_node_section(group, "inner"), "deep");
	g_assert_cmpstr(vms_lvm_node_string(deep, "value"), ==, "\"q\\");
	g_assert_true(vms_lvm_node_number(root, "creation_time", &number));
	g_assert_cmpuint(number, ==, 12);
	/* Nothing of that name; or of another kind; or no number. */
	g_assert_null(vms_lvm_node_section(group, "id"));
	g_assert_null(vms_lvm_node_string(group, "inner"));
	g_assert_null(vms_lvm_node_section(NULL, "vg"));
	g_assert_null(vms_lvm_node_string(group, "i"));
	g_assert_false(vms_lvm_node_number(group, "id", &number));
	g_assert_false(vms_lvm_node_number(group, "missing", &number));
	vms_lvm_text_free(parsed);
}

/* However many there are, each is found by its name, and of several the first. */
static void test_many(void)
{
	for (unsigned n = 1; n < 30; n++) {
		g_autoptr(GString) text = g_string_new(NULL);
		for (unsigned i = 0; i < n; i++)
			g_string_append_printf(text, "n%u = %u\n", i * 7 % n, i * 7 % n + 100);
		for (unsigned i = 0; i < n; i++)
			g_string_append_printf(text, "n%u = 1\n", i);
		struct vms_lvm_text *parsed = parse(text->str);
		for (unsigned i = 0; i < n; i++) {
			g_autofree char *name = g_strdup_printf("n%u", i);
			uint64_t number;
			g_assert_true(vms_lvm_node_number(parsed->root, name, &number));
			if (n % 7 != 0)
				g_assert_cmpuint(number, ==, i + 100);
		}
		g_assert_null(vms_lvm_node_string(parsed->root, "n"));
		g_assert_null(vms_lvm_node_string(parsed->root, "n99"));
		g_assert_null(vms_lvm_node_string(parsed->root, "z"));
		/* What is listed is in the order in which it was written. */
		const struct vms_lvm_node *last =
			parsed->root->children->pdata[parsed->root->children->len - 1];
		g_autofree char *name = g_strdup_printf("n%u", n - 1);
		g_assert_cmpstr(last->name, ==, name);
		vms_lvm_text_free(parsed);
	}
}

static void test_numbers(void)
{
	static const char *const texts[] = {
		"18446744073709551616", "-1", "+1", "0x10", "1.5", "\"\"", "\" 1\""
	};
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_autofree char *text = g_strdup_printf("a = %s", texts[i]);
		struct vms_lvm_text *parsed = parse(text);
		uint64_t number;
		g_assert_nonnull(parsed);
		g_assert_false(vms_lvm_node_number(parsed->root, "a", &number));
		vms_lvm_text_free(parsed);
	}
}

static void test_malformed(void)
{
	static const char *const texts[] = {
		"a",	    "a {",     "a { b = 1",  "a { } }",	  "a =",     "a = [",
		"a = [1",   "a = [1,", "a = [1 2]",  "a = \"",	  "a = \"x", "a = \"x\\",
		"a = \"\\", "= 1",     "{ }",	     "a = { }",	  "a = ]",   "a = [[1]]",
		"a = 1 =",  "a $ 1",   "a = [1,,2]", "a { b = }", "a } b",
	};
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		/* With no byte behind it, not even a 0. */
		g_autofree uint8_t *bytes = g_memdup2(texts[i], strlen(texts[i]));
		struct vms_lvm_text *parsed =
			vms_lvm_text_parse((struct vms_bytes) { bytes, strlen(texts[i]), NULL });
		if (parsed)
			g_error("'%s' was parsed", texts[i]);
	}
}

/* A text ends with its first 0, or with its bytes. */
static void test_end(void)
{
	static const char text[] = "a = 1\n\0b = 2 {{{";
	struct vms_lvm_text *parsed = vms_lvm_text_parse(
		(struct vms_bytes) { (const uint8_t *)text, sizeof(text), NULL });
	g_assert_nonnull(parsed);
	g_assert_cmpuint(parsed->root->children->len, ==, 1);
	vms_lvm_text_free(parsed);
	parsed = vms_lvm_text_parse((struct vms_bytes) { (const uint8_t *)text, 0, NULL });
	g_assert_nonnull(parsed);
	g_assert_cmpuint(parsed->root->children->len, ==, 0);
	vms_lvm_text_free(parsed);
	static const char in_section[] = "a {\n\0}", in_string[] = "a = \"b\0c\"";
	g_assert_null(vms_lvm_text_parse(
		(struct vms_bytes) { (const uint8_t *)in_section, sizeof(in_section), NULL }));
	g_assert_null(vms_lvm_text_parse(
		(struct vms_bytes) { (const uint8_t *)in_string, sizeof(in_string), NULL }));
}

static void test_depth(void)
{
	for (unsigned depth = 1; depth < 12; depth++) {
		g_autoptr(GString) text = g_string_new(NULL);
		for (unsigned i = 0; i < depth; i++)
			g_string_append(text, "a{");
		for (unsigned i = 0; i < depth; i++)
			g_string_append(text, "}");
		struct vms_lvm_text *parsed = parse(text->str);
		g_assert_true(!parsed == (depth > 8));
		vms_lvm_text_free(parsed);
	}
}

/* So many sections, values and items of lists at most, together. */
static void test_limit(void)
{
	for (unsigned more = 0; more < 2; more++) {
		g_autoptr(GString) text = g_string_new("s{v=1}l=[");
		for (unsigned i = 0; i < 65536 - 4 + more; i++)
			g_string_append(text, "1,");
		g_string_append(text, "1]");
		text->str[text->len - 2] = ' '; /* a comma may be the last */
		struct vms_lvm_text *parsed = parse(text->str);
		g_assert_true((parsed == NULL) == (more > 0));
		vms_lvm_text_free(parsed);
	}
}

/* What is kept is paid for and given back, also if the text is malformed in its last byte. */
static void test_budget(void)
{
	g_autoptr(GString) text = g_string_new(NULL);
	for (unsigned i = 0; i < 1000; i++)
		g_string_append_printf(text, "a%u = [1, \"two\"]\n", i);
	for (int damaged = 0; damaged < 2; damaged++) {
		g_autoptr(vms_budget) budget = fake_disk_budget(1000000, 10 << 20);
		if (damaged)
			g_string_append(text, "{");
		struct vms_lvm_text *parsed = vms_lvm_text_parse(
			(struct vms_bytes) { (const uint8_t *)text->str, text->len, budget });
		g_assert_true((parsed == NULL) == (damaged > 0));
		/* Each node has a struct, and each text at least 16 bytes of its allocator. */
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), >=,
				 damaged ? 0 : 3000 * (sizeof(struct vms_lvm_node) + 16));
		vms_lvm_text_free(parsed);
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, 0);
	}
	g_string_truncate(text, text->len - 1);
	static const struct {
		uint64_t steps, bytes;
	} few[] = { { 10000, 10 << 20 }, { 1000000, 100000 } };
	for (size_t i = 0; i < G_N_ELEMENTS(few); i++) {
		g_autoptr(vms_budget) budget = fake_disk_budget(few[i].steps, few[i].bytes);
		g_assert_null(vms_lvm_text_parse(
			(struct vms_bytes) { (const uint8_t *)text->str, text->len, budget }));
		g_assert_false(vms_budget_has_left(budget));
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, 0);
	}
}

/* What makes no nodes costs, too. */
static void test_long_comment(void)
{
	g_autoptr(vms_budget) budget = fake_disk_budget(10000, 10 << 20);
	g_autofree uint8_t *text = g_malloc(1 << 20);
	memset(text, '#', 1 << 20);
	g_assert_null(vms_lvm_text_parse((struct vms_bytes) { text, 1 << 20, budget }));
	g_assert_false(vms_budget_has_left(budget));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/lvm-text/lookups", test_lookups);
	g_test_add_func("/lvm-text/many", test_many);
	g_test_add_func("/lvm-text/numbers", test_numbers);
	g_test_add_func("/lvm-text/malformed", test_malformed);
	g_test_add_func("/lvm-text/end", test_end);
	g_test_add_func("/lvm-text/depth", test_depth);
	g_test_add_func("/lvm-text/limit", test_limit);
	g_test_add_func("/lvm-text/budget", test_budget);
	g_test_add_func("/lvm-text/long-comment", test_long_comment);
	return g_test_run();
}
