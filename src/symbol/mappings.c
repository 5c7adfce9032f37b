/* SPDX-License-Identifier: MIT */
/*
 * A treap (Aragon, Seidel: "Randomized search trees", 1996): a search tree by address, and a heap
 * by random priorities, which keep it flat whatever the order of the mappings is. A node that
 * several trees have is copied before it changes.
 */
#include "symbol/mappings.h"
#include "symbol/binary.h"

struct node {
	gatomicrefcount refs;
	uint32_t priority;
	uint32_t count; /* of nodes from here on */
	struct node *left, *right;
	struct vms_mapping mapping;
};

G_STATIC_ASSERT(sizeof(struct node) <= VMS_MAPPING_NODE_BYTES);

struct vms_mappings {
	struct node *root;
	size_t n_made; /* nodes */
};

/* ---- nodes ---------------------------------------------------------------------------- */

static struct node *ref_node(struct node *node)
{
	if (node)
		g_atomic_ref_count_inc(&node->refs);
	return node;
}

static void unref_node(struct node *node)
{
	if (!node || !g_atomic_ref_count_dec(&node->refs))
		return;
	unref_node(node->left);
	unref_node(node->right);
	vms_symbol_table_unref(node->mapping.symbols);
	vms_binary_unref(node->mapping.binary);
	g_free(node);
}

static struct node *make_node(struct vms_mappings *mappings, const struct vms_mapping *mapping,
			      uint32_t priority)
{
	struct node *node = g_new(struct node, 1);
	*node = (struct node) { .priority = priority, .count = 1, .mapping = *mapping };
	g_atomic_ref_count_init(&node->refs);
	if (mapping->symbols)
		vms_symbol_table_ref(mapping->symbols);
	if (mapping->binary)
		vms_binary_ref(mapping->binary);
	mappings->n_made++;
	return node;
}

/* Takes a reference of a node. Returns one of a node that no other tree has. */
static struct node *make_own(struct vms_mappings *mappings, struct node *node)
{
	if (g_atomic_ref_count_compare(&node->refs, 1))
		return node;
	struct node *own = make_node(mappings, &node->mapping, node->priority);
	own->count = node->count;
	own->left = ref_node(node->left);
	own->right = ref_node(node->right);
	unref_node(node);
	return own;
}

static uint32_t count_nodes(const struct node *node)
{
	return node ? node->count : 0;
}

static void update_count(struct node *node)
{
	node->count = 1 + count_nodes(node->left) + count_nodes(node->right);
}

/* ---- trees; each of these takes the trees that it is given ---------------------------- */

/* Splits a tree into mappings that begin below `va`, and the rest. */
static void split_tree(struct vms_mappings *mappings, struct node *tree, uint64_t va,
		       struct node **below, struct node **rest)
{
	if (!tree) {
		*below = *rest = NULL;
		return;
	}
	tree = make_own(mappings, tree);
	if (tree->mapping.start < va) {
		split_tree(mappings, tree->right, va, &tree->right, rest);
		*below = tree;
	} else {
		split_tree(mappings, tree->left, va, below, &tree->left);
		*rest = tree;
	}
	update_count(tree);
}

/* Joins two trees, of which the second begins where the first ends. */
static struct node *join_trees(struct vms_mappings *mappings, struct node *first,
			       struct node *second)
{
	if (!first || !second)
		return first ? first : second;
	struct node *root;
	if (first->priority > second->priority) {
		root = make_own(mappings, first);
		root->right = join_trees(mappings, root->right, second);
	} else {
		root = make_own(mappings, second);
		root->left = join_trees(mappings, first, root->left);
	}
	update_count(root);
	return root;
}

static const struct vms_mapping *get_last(const struct node *tree)
{
	while (tree && tree->right)
		tree = tree->right;
	return tree ? &tree->mapping : NULL;
}

/* ---- mappings ------------------------------------------------------------------------- */

struct vms_mappings *vms_mappings_new(void)
{
	return g_new0(struct vms_mappings, 1);
}

struct vms_mappings *vms_mappings_copy(const struct vms_mappings *mappings)
{
	struct vms_mappings *copy = vms_mappings_new();
	copy->root = ref_node(mappings->root);
	return copy;
}

void vms_mappings_free(struct vms_mappings *mappings)
{
	if (!mappings)
		return;
	unref_node(mappings->root);
	g_free(mappings);
}

const struct vms_mapping *vms_mappings_find(const struct vms_mappings *mappings, uint64_t va)
{
	const struct vms_mapping *last = NULL;
	const struct node *node = mappings ? mappings->root : NULL;
	while (node) {
		const bool begins_below = node->mapping.start <= va;
		if (begins_below)
			last = &node->mapping;
		node = begins_below ? node->right : node->left;
	}
	return last && va < last->end ? last : NULL;
}

size_t vms_mappings_put(struct vms_mappings *mappings, const struct vms_mapping *mapping,
			size_t limit)
{
	struct node *below, *inside, *above;
	const size_t n_made = mappings->n_made;
	/* First: `mapping` may share its symbols with one that is removed. */
	struct node *node = make_node(mappings, mapping, g_random_int());
	split_tree(mappings, mappings->root, mapping->start, &below, &above);
	split_tree(mappings, above, mapping->end, &inside, &above);
	unref_node(inside);
	if (below && get_last(below)->end > mapping->start) {
		split_tree(mappings, below, get_last(below)->start, &below, &inside);
		unref_node(inside);
	}
	if (count_nodes(below) + count_nodes(above) < limit)
		below = join_trees(mappings, below, node);
	else
		unref_node(node);
	mappings->root = join_trees(mappings, below, above);
	return mappings->n_made - n_made;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct vms_mapping *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

struct vms_mappings *vms_mappings_new_of(const struct vms_mapping *others, size_t n)
{
	struct vms_mappings *mappings = vms_mappings_new();
	g_autoptr(GArray) sorted = g_array_new(FALSE, FALSE, sizeof(struct vms_mapping));
	g_array_append_vals(sorted, others, (guint)n);
	g_array_sort(sorted, compare_mappings);
	for (guint i = 0; i < sorted->len; i++) {
		struct node *node = make_node(
			mappings, &g_array_index(sorted, struct vms_mapping, i), g_random_int());
		mappings->root = join_trees(mappings, mappings->root, node);
	}
	return mappings;
}

size_t vms_mappings_count(const struct vms_mappings *mappings)
{
	return count_nodes(mappings->root);
}

const struct vms_symbol_table *vms_mappings_functions(const struct vms_mapping *mapping)
{
	const struct vms_symbol_table *known =
		mapping->binary ? vms_binary_known_functions(mapping->binary) : NULL;
	return known && vms_symbol_table_count(known) > 0 ? known : mapping->symbols;
}
