/* SPDX-License-Identifier: MIT */
#include "sample/tree.h"
#include <inttypes.h>

static struct vms_tree_key pc(uint64_t va)
{
	return (struct vms_tree_key) { .kind = VMS_TREE_PC,
				       .value = va,
				       .owner = VMS_KERNEL_SPACE };
}

/* A node as the keys from the root to it. */
static char *path_text(const struct vms_tree *tree, uint32_t node)
{
	GString *text = g_string_new(NULL);
	for (; node != VMS_TREE_ROOT; node = tree->nodes[node].parent) {
		const struct vms_tree_key *key = &tree->nodes[node].key;
		g_autofree char *one =
			g_strdup_printf("/%u:%" PRIx64 ":%x", key->kind, key->value, key->owner);
		g_string_prepend(text, one);
	}
	return g_string_free(text, FALSE);
}

/* Random paths against a table of their texts. */
static void test_counts(void)
{
	g_autoptr(vms_tree) tree = vms_tree_new(VMS_TREE_LIMIT);
	g_autoptr(GHashTable) expected =
		g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	static const uint64_t values[] = { 0, 1, UINT64_C(1) << 32, UINT64_MAX };
	static const uint32_t owners[] = { 0, 1, VMS_KERNEL_SPACE, VMS_NO_SPACE };

	for (int i = 0; i < 20000; i++) {
		struct vms_tree_key path[6];
		int n = g_test_rand_int_range(1, G_N_ELEMENTS(path) + 1);
		int weight = g_test_rand_int_range(1, 5);
		GString *text = g_string_new(NULL);
		for (int j = 0; j < n; j++) {
			path[j] = (struct vms_tree_key) {
				.kind = (uint32_t)g_test_rand_int_range(0, 4),
				.value = values[g_test_rand_int_range(0, 4)],
				.owner = owners[g_test_rand_int_range(0, 4)],
			};
			g_string_append_printf(text, "/%u:%" PRIx64 ":%x", path[j].kind,
					       path[j].value, path[j].owner);
		}
		vms_tree_add(tree, path, (size_t)n, (uint64_t)weight);
		char *key = g_string_free(text, FALSE);
		int before = GPOINTER_TO_INT(g_hash_table_lookup(expected, key));
		g_hash_table_insert(expected, key, GINT_TO_POINTER(before + weight));
	}

	guint counted = 0;
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		g_autofree char *text = path_text(tree, i);
		if (tree->nodes[i].parent != VMS_TREE_ROOT)
			g_assert_cmpuint(tree->nodes[i].parent, <, i);
		g_assert_cmpuint(tree->nodes[i].self, ==,
				 GPOINTER_TO_UINT(g_hash_table_lookup(expected, text)));
		counted += tree->nodes[i].self > 0;
	}
	g_assert_cmpuint(counted, ==, g_hash_table_size(expected));
}

/* A chain of a million, and a million children of one node. */
static void test_million(void)
{
	const uint32_t n = 1000000;
	g_autoptr(vms_tree) deep = vms_tree_new(VMS_TREE_LIMIT);
	g_autoptr(vms_tree) wide = vms_tree_new(VMS_TREE_LIMIT);
	uint32_t node = VMS_TREE_ROOT;

	for (int round = 0; round < 2; round++) {
		node = VMS_TREE_ROOT;
		for (uint32_t i = 0; i < n; i++) {
			node = vms_tree_child(deep, node, pc(7));
			g_assert_cmpuint(node, ==, i);
			g_assert_cmpuint(vms_tree_child(wide, VMS_TREE_ROOT, pc(i)), ==, i);
		}
	}
	g_assert_cmpuint(deep->n_nodes, ==, n);
	g_assert_cmpuint(wide->n_nodes, ==, n);
}

/* Beyond the limit every sample is still counted, under a marker. */
static void test_limit(void)
{
	for (uint32_t limit = 1; limit < 20; limit++) {
		g_autoptr(vms_tree) tree = vms_tree_new(limit);
		for (uint64_t i = 0; i < 30; i++) {
			struct vms_tree_key path[] = { pc(i / 10), pc(i) };
			vms_tree_add(tree, path, G_N_ELEMENTS(path), 3);
		}
		uint64_t sum = 0, marked = 0;
		g_assert_cmpuint(tree->n_nodes, <=, limit);
		for (uint32_t i = 0; i < tree->n_nodes; i++) {
			sum += tree->nodes[i].self;
			if (tree->nodes[i].key.kind == VMS_TREE_MARKER) {
				g_assert_cmphex(tree->nodes[i].key.value, ==,
						VMS_TREE_OUT_OF_NODES);
				g_assert_cmphex(tree->nodes[i].parent, ==, VMS_TREE_ROOT);
				marked = tree->nodes[i].self;
			}
		}
		g_assert_cmpuint(sum, ==, 90);
		/* limit - 1 nodes hold paths: 11 a group, the first of which is the group's. */
		uint64_t whole =
			(limit - 1) / 11 * 10 + (limit - 1) % 11 - ((limit - 1) % 11 ? 1 : 0);
		g_assert_cmpuint(marked, ==, 90 - 3 * whole);
	}
}

/* Counts beyond 32 bits. */
static void test_large_counts(void)
{
	g_autoptr(vms_tree) tree = vms_tree_new(VMS_TREE_LIMIT);
	struct vms_tree_key path[] = { pc(1) };

	vms_tree_add(tree, path, 1, UINT32_MAX);
	vms_tree_add(tree, path, 1, UINT32_MAX);
	g_assert_cmpuint(tree->nodes[0].self, ==, UINT64_C(8589934590));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/tree/counts", test_counts);
	g_test_add_func("/tree/million", test_million);
	g_test_add_func("/tree/limit", test_limit);
	g_test_add_func("/tree/large-counts", test_large_counts);
	return g_test_run();
}
