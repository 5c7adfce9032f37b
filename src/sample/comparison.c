/* SPDX-License-Identifier: MIT */
/*
 * Compares profiles. The trees of both become one tree, whose keys are names: a node has the
 * samples that the stack has in each.
 */
#include "base/keyed_hash.h"
#include "base/texts.h"
#include "sample/tree.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <vmscope/comparison.h>

#define Z_95	1.959964 /* standard deviations on each side of an interval that has 95 % */
#define NO_NAME UINT32_MAX
#define OF_NAME 0 /* owners of keys in the merged tree */
#define OF_VCPU 1

/*
 * Functions with the same name are the same. Strings are interned, so equal ones are one pointer.
 */
struct name {
	const char *text, *module;
	enum vms_label_kind kind;
	bool is_user;
};

/* The samples of a stack, or of a function. */
struct counts {
	struct vms_compared_counts self, total;
};

struct vms_comparison {
	struct vms_texts *strings;
	GArray *names;	     /* struct name */
	GHashTable *indices; /* from a struct name to its index + 1 */
	struct vms_tree *tree;
	GArray *counts;	    /* struct counts by node of the tree */
	uint32_t **of_node; /* by tree and node of the second profile: the node of the tree */
	uint32_t *of_tree;  /* by tree of the second profile: the node that holds it */
	size_t n_trees;
	GArray *functions; /* struct vms_compared_function */
	struct vms_compared_counts samples;
};

/* ---- names -------------------------------------------------------------------------- */

static guint hash_name(gconstpointer data)
{
	const struct name *name = data;
	const uint64_t parts[] = { (uintptr_t)name->text, (uintptr_t)name->module,
				   (uint64_t)name->kind << 1 | name->is_user };
	return (guint)vms_keyed_hash(parts, sizeof(parts));
}

static gboolean equal_names(gconstpointer a, gconstpointer b)
{
	const struct name *x = a, *y = b;
	return x->text == y->text && x->module == y->module && x->kind == y->kind &&
	       x->is_user == y->is_user;
}

static const char *intern_text(struct vms_comparison *comparison, const char *text)
{
	return vms_texts_keep(comparison->strings, text);
}

/* Returns the name of a file without folders: these may differ between machines. */
static const char *skip_folders(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash && slash[1] ? slash + 1 : path;
}

static const char *name_label(struct vms_comparison *comparison, const struct vms_label *label)
{
	if (label->name && !label->offset)
		return intern_text(comparison, label->name);
	g_autofree char *text =
		label->name ? g_strdup_printf("%s+0x%" PRIx64, label->name, label->offset)
			    : g_strdup_printf("0x%" PRIx64, label->va);
	return intern_text(comparison, text);
}

/* Returns the index of a label's name. */
static uint32_t get_name(struct vms_comparison *comparison, const struct vms_label *label)
{
	const struct name name = {
		.text = name_label(comparison, label),
		.module = intern_text(comparison, skip_folders(label->module)),
		.kind = label->kind,
		.is_user = label->is_user,
	};
	gpointer found = g_hash_table_lookup(comparison->indices, &name);
	if (found)
		return GPOINTER_TO_UINT(found) - 1;
	g_array_append_val(comparison->names, name);
	g_hash_table_insert(comparison->indices, g_memdup2(&name, sizeof(name)),
			    GUINT_TO_POINTER(comparison->names->len));
	return comparison->names->len - 1;
}

/* ---- the merged tree ---------------------------------------------------------------- */

/*
 * Returns the child of `parent` with that key. Without room it is the parent, or the tree's first
 * node.
 */
static uint32_t get_child(struct vms_comparison *comparison, uint32_t parent, uint64_t value,
			  uint32_t owner)
{
	const struct vms_tree_key key = { value, VMS_TREE_LABEL, owner };
	const uint32_t node = vms_tree_child(comparison->tree, parent, key);
	if (node == VMS_TREE_FULL)
		return parent == VMS_TREE_ROOT ? 0 : parent;
	if (comparison->counts->len < comparison->tree->n_nodes)
		g_array_set_size(comparison->counts, comparison->tree->n_nodes);
	return node;
}

static struct counts *get_counts(const struct vms_comparison *comparison, uint32_t node)
{
	return &g_array_index(comparison->counts, struct counts, node);
}

static uint64_t *get_side(struct vms_compared_counts *counts, bool is_after)
{
	return is_after ? &counts->after : &counts->before;
}

static uint32_t get_root(struct vms_comparison *comparison, const struct vms_profile_tree *tree)
{
	return get_child(comparison, VMS_TREE_ROOT, (uint64_t)(int64_t)tree->vcpu, OF_VCPU);
}

/* Adds a tree below `root`. Returns the merged node of each of its nodes, newly allocated. */
static uint32_t *merge_tree(struct vms_comparison *comparison, const struct vms_profile *profile,
			    const struct vms_profile_tree *tree, uint32_t root, bool is_after)
{
	uint32_t *to = g_new(uint32_t, tree->n_nodes);
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_profile_node *node = &tree->nodes[i];
		const uint32_t parent = node->parent == VMS_NO_NODE ? root : to[node->parent];
		const uint32_t name = get_name(comparison, vms_profile_label(profile, node->label));
		to[i] = get_child(comparison, parent, name, OF_NAME);
		*get_side(&get_counts(comparison, to[i])->self, is_after) += node->self;
	}
	*get_side(&comparison->samples, is_after) += tree->samples;
	return to;
}

static void merge_profile(struct vms_comparison *comparison, const struct vms_profile *profile,
			  bool is_after)
{
	size_t n;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);
	if (is_after) {
		comparison->of_node = g_new(uint32_t *, n);
		comparison->of_tree = g_new(uint32_t, n);
		comparison->n_trees = n;
	}
	for (size_t i = 0; i < n; i++) {
		const uint32_t root = get_root(comparison, &trees[i]);
		uint32_t *to = merge_tree(comparison, profile, &trees[i], root, is_after);
		if (!is_after) {
			g_free(to);
			continue;
		}
		comparison->of_node[i] = to;
		comparison->of_tree[i] = root;
	}
}

/* Adds up the samples below each node. */
static void sum_totals(struct vms_comparison *comparison)
{
	for (uint32_t i = comparison->tree->n_nodes; i-- > 0;) {
		struct counts *counts = get_counts(comparison, i);
		const uint32_t parent = comparison->tree->nodes[i].parent;
		counts->total.before += counts->self.before;
		counts->total.after += counts->self.after;
		if (parent == VMS_TREE_ROOT)
			continue;
		get_counts(comparison, parent)->total.before += counts->total.before;
		get_counts(comparison, parent)->total.after += counts->total.after;
	}
}

/* ---- functions ---------------------------------------------------------------------- */

/* The state of the sums of all functions. */
struct summing {
	struct vms_comparison *comparison;
	uint32_t *process_of;  /* by node: the name of the process on its path, or NO_NAME */
	struct vms_tree *keys; /* the index of a function's key is that of the function */
	GArray *counted;       /* uint32_t by function: the last node that was counted, + 1 */
};

/* Returns the name of the process that each node is in, newly allocated. */
static uint32_t *find_processes(const struct vms_comparison *comparison)
{
	const struct vms_tree *tree = comparison->tree;
	uint32_t *process_of = g_new(uint32_t, MAX(tree->n_nodes, 1));
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_tree_node *node = &tree->nodes[i];
		const uint32_t name = (uint32_t)node->key.value;
		if (node->key.owner == OF_NAME &&
		    g_array_index(comparison->names, struct name, name).kind == VMS_LABEL_PROCESS)
			process_of[i] = name;
		else
			process_of[i] =
				node->parent == VMS_TREE_ROOT ? NO_NAME : process_of[node->parent];
	}
	return process_of;
}

static bool is_function(const struct name *name)
{
	return name->kind == VMS_LABEL_FUNCTION || name->kind == VMS_LABEL_ADDRESS ||
	       name->kind == VMS_LABEL_IDLE;
}

static void add_function(struct summing *summing, uint32_t name_index, uint32_t process)
{
	const GArray *names = summing->comparison->names;
	const struct name *name = &g_array_index(names, struct name, name_index);
	const struct vms_compared_function function = {
		.name = name->text,
		.module = name->module,
		.is_user = name->is_user,
		.process =
			process == NO_NAME ? NULL : g_array_index(names, struct name, process).text,
	};
	const uint32_t counted = 0;
	g_array_append_val(summing->comparison->functions, function);
	g_array_append_val(summing->counted, counted);
}

/* Returns the index of a function in a process, or VMS_TREE_FULL. */
static uint32_t get_function(struct summing *summing, uint32_t name, uint32_t process)
{
	const struct vms_tree_key key = { name, VMS_TREE_LABEL, process };
	const uint32_t index = vms_tree_child(summing->keys, VMS_TREE_ROOT, key);
	if (index != VMS_TREE_FULL && index == summing->comparison->functions->len)
		add_function(summing, name, process);
	return index;
}

static void add_counts(struct vms_compared_counts *to, const struct vms_compared_counts *counts)
{
	to->before += counts->before;
	to->after += counts->after;
}

/* Counts the samples that end in a node for each function on its path. */
static void count_path(struct summing *summing, uint32_t leaf)
{
	const struct vms_tree *tree = summing->comparison->tree;
	const struct vms_compared_counts *self = &get_counts(summing->comparison, leaf)->self;
	for (uint32_t i = leaf; i != VMS_TREE_ROOT; i = tree->nodes[i].parent) {
		const struct vms_tree_key *key = &tree->nodes[i].key;
		const uint32_t name = (uint32_t)key->value;
		if (key->owner != OF_NAME ||
		    !is_function(&g_array_index(summing->comparison->names, struct name, name)))
			continue;
		const uint32_t index = get_function(summing, name, summing->process_of[leaf]);
		if (index == VMS_TREE_FULL)
			continue;
		struct vms_compared_function *function = &g_array_index(
			summing->comparison->functions, struct vms_compared_function, index);
		uint32_t *counted = &g_array_index(summing->counted, uint32_t, index);
		if (i == leaf)
			add_counts(&function->self, self);
		if (*counted != leaf + 1)
			add_counts(&function->total, self);
		*counted = leaf + 1;
	}
}

static void sum_functions(struct vms_comparison *comparison)
{
	struct summing summing = {
		.comparison = comparison,
		.process_of = find_processes(comparison),
		.keys = vms_tree_new(VMS_TREE_LIMIT),
		.counted = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
	};
	for (uint32_t i = 0; i < comparison->tree->n_nodes; i++) {
		const struct vms_compared_counts *self = &get_counts(comparison, i)->self;
		if (self->before || self->after)
			count_path(&summing, i);
	}
	g_free(summing.process_of);
	vms_tree_free(summing.keys);
	g_array_unref(summing.counted);
}

/* ---- the comparison ------------------------------------------------------------------ */

struct vms_comparison *vms_comparison_new(const struct vms_profile *before,
					  const struct vms_profile *after, GError **error)
{
	if (vms_profile_leaf_first(before) || vms_profile_leaf_first(after)) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
				    "profiles that begin with the leaf cannot be compared");
		return NULL;
	}
	struct vms_comparison *comparison = g_new0(struct vms_comparison, 1);
	comparison->strings = vms_texts_new();
	comparison->names = g_array_new(FALSE, FALSE, sizeof(struct name));
	comparison->indices = g_hash_table_new_full(hash_name, equal_names, g_free, NULL);
	comparison->tree = vms_tree_new(VMS_TREE_LIMIT);
	comparison->counts = g_array_new(FALSE, TRUE, sizeof(struct counts));
	comparison->functions = g_array_new(FALSE, FALSE, sizeof(struct vms_compared_function));
	merge_profile(comparison, before, false);
	merge_profile(comparison, after, true);
	sum_totals(comparison);
	sum_functions(comparison);
	return comparison;
}

void vms_comparison_free(struct vms_comparison *comparison)
{
	if (!comparison)
		return;
	for (size_t i = 0; i < comparison->n_trees; i++)
		g_free(comparison->of_node[i]);
	g_free(comparison->of_node);
	g_free(comparison->of_tree);
	vms_tree_free(comparison->tree);
	g_hash_table_unref(comparison->indices);
	g_array_unref(comparison->names);
	g_array_unref(comparison->counts);
	g_array_unref(comparison->functions);
	vms_texts_free(comparison->strings);
	g_free(comparison);
}

const struct vms_compared_function *vms_comparison_functions(
	const struct vms_comparison *comparison, size_t *n)
{
	*n = comparison->functions->len;
	return (const struct vms_compared_function *)(const void *)comparison->functions->data;
}

struct vms_compared_counts vms_comparison_samples(const struct vms_comparison *comparison)
{
	return comparison->samples;
}

void vms_comparison_node(const struct vms_comparison *comparison, size_t tree, uint32_t node,
			 struct vms_compared_counts *self, struct vms_compared_counts *total)
{
	const struct counts *counts =
		get_counts(comparison, node == VMS_NO_NODE ? comparison->of_tree[tree]
							   : comparison->of_node[tree][node]);
	*self = counts->self;
	*total = counts->total;
}

/* ---- changes -------------------------------------------------------------------------- */

/* Returns a share as if there were two more samples, and one of them counted. */
static double get_moved_share(uint64_t part, uint64_t all)
{
	return ((double)part + 1) / ((double)all + 2);
}

static double get_share_variance(double share, uint64_t all)
{
	return share * (1 - share) / ((double)all + 2);
}

struct vms_compared_change vms_compared_share(struct vms_compared_counts part,
					      struct vms_compared_counts all)
{
	const double before = get_moved_share(part.before, all.before),
		     after = get_moved_share(part.after, all.after);
	const double error = Z_95 * sqrt(get_share_variance(before, all.before) +
					 get_share_variance(after, all.after));
	return (struct vms_compared_change) {
		.before = all.before ? 100 * (double)part.before / (double)all.before : 0,
		.after = all.after ? 100 * (double)part.after / (double)all.after : 0,
		.error = 100 * error,
		.is_chance = fabs(after - before) <= error,
	};
}

struct vms_compared_change vms_compared_rate(struct vms_compared_counts part, double scale_before,
					     double scale_after)
{
	const double variance = ((double)part.before + 1) * scale_before * scale_before +
				((double)part.after + 1) * scale_after * scale_after;
	struct vms_compared_change change = {
		.before = (double)part.before * scale_before,
		.after = (double)part.after * scale_after,
		.error = Z_95 * sqrt(variance),
	};
	change.is_chance = fabs(change.after - change.before) <= change.error;
	return change;
}
