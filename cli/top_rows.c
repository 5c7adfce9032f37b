/* SPDX-License-Identifier: MIT */
#include "top_rows.h"
#include "base/keyed_hash.h"

struct builder {
	const struct top_view *view;
	struct vms_texts *strings;
	GArray *rows;
	GHashTable *indices; /* from a struct top_row to its index + 1 */
	uint64_t stacks;     /* that were counted */
};

/* Strings are interned, so equal ones are one pointer. */
static guint hash_row(gconstpointer data)
{
	const struct top_row *row = data;
	const uint64_t parts[] = { (uintptr_t)row->guest,     (uintptr_t)row->process,
				   (uintptr_t)row->container, (uintptr_t)row->function,
				   (uintptr_t)row->module,    row->vcpu };
	return (guint)vms_keyed_hash(parts, sizeof(parts));
}

static gboolean equal_rows(gconstpointer a, gconstpointer b)
{
	const struct top_row *x = a, *y = b;
	return x->guest == y->guest && x->container == y->container && x->process == y->process &&
	       x->function == y->function && x->module == y->module && x->vcpu == y->vcpu;
}

static const char *intern_text(struct builder *builder, const char *text)
{
	return vms_texts_keep(builder->strings, text);
}

static struct top_row *get_row(struct builder *builder, const struct top_row *key)
{
	gpointer found = g_hash_table_lookup(builder->indices, key);
	if (!found) {
		g_array_append_vals(builder->rows, key, 1);
		found = GUINT_TO_POINTER(builder->rows->len);
		g_hash_table_insert(builder->indices, g_memdup2(key, sizeof(*key)), found);
	}
	return &g_array_index(builder->rows, struct top_row, GPOINTER_TO_UINT(found) - 1);
}

static bool is_code(const struct vms_label *label)
{
	return label->kind == VMS_LABEL_FUNCTION || label->kind == VMS_LABEL_ADDRESS;
}

/* Names what a label stands for in the key of a row. */
static void name_function(struct builder *builder, const struct vms_label *label,
			  struct top_row *key)
{
	g_autofree char *address =
		label->name ? NULL : g_strdup_printf("0x%" G_GINT64_MODIFIER "x", label->va);
	const char *module =
		label->module || label->is_user || !is_code(label) ? label->module : "vmlinux";
	key->function = intern_text(builder, address ? address : label->name);
	key->module = intern_text(builder, module);
}

/* Names the process, and its container, in the key of a row, as far as the view has them. */
static void name_process(struct builder *builder, const struct vms_profile *profile,
			 const struct vms_profile_tree *tree, uint32_t leaf, struct top_row *key)
{
	uint32_t outermost = leaf;
	while (tree->nodes[outermost].parent != VMS_NO_NODE)
		outermost = tree->nodes[outermost].parent;
	const struct vms_label *label = vms_profile_label(profile, tree->nodes[outermost].label);
	const bool is_named = label->kind == VMS_LABEL_PROCESS || label->kind == VMS_LABEL_IDLE;
	if (builder->view->keys & TOP_BY_PROCESS)
		key->process = intern_text(builder, is_named ? label->name : NULL);
	if (builder->view->keys & TOP_BY_CONTAINER)
		key->container = intern_text(builder, label->container);
}

/* Adds the samples that end in a node to the rows of its stack. `scale`: percent by sample. */
static void add_stack(struct builder *builder, const struct vms_profile *profile,
		      const struct vms_profile_tree *tree, uint32_t leaf, struct top_row key,
		      double scale)
{
	const uint64_t samples = tree->nodes[leaf].self;
	builder->stacks++;
	name_process(builder, profile, tree, leaf, &key);
	for (uint32_t i = leaf; i != VMS_NO_NODE; i = tree->nodes[i].parent) {
		const struct vms_label *label = vms_profile_label(profile, tree->nodes[i].label);
		if (i != leaf && (!is_code(label) || !(builder->view->keys & TOP_BY_FUNCTION)))
			continue;
		if (builder->view->keys & TOP_BY_FUNCTION)
			name_function(builder, label, &key);
		struct top_row *row = get_row(builder, &key);
		if (i == leaf)
			row->self += (double)samples * scale;
		if (row->counted != builder->stacks) {
			row->total += (double)samples * scale;
			row->samples += samples;
		}
		row->counted = builder->stacks;
	}
}

static void add_tree(struct builder *builder, const struct top_guest *guest,
		     const struct vms_profile_tree *tree)
{
	const unsigned keys = builder->view->keys;
	const struct top_row key = {
		.guest = keys & TOP_BY_GUEST ? intern_text(builder, guest->name) : NULL,
		.vcpu = keys & TOP_BY_VCPU ? (unsigned)tree->vcpu : 0,
	};
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_profile_node *node = &tree->nodes[i];
		const struct vms_label *label = vms_profile_label(guest->profile, node->label);
		if (node->self && (builder->view->with_idle || label->kind != VMS_LABEL_IDLE))
			add_stack(builder, guest->profile, tree, i, key,
				  100 / (double)tree->samples);
	}
}

static int compare_rows(const void *a, const void *b, void *data)
{
	const struct top_row *x = a, *y = b;
	const struct top_view *view = data;
	const double first = view->by_total ? x->total : x->self,
		     second = view->by_total ? y->total : y->self;
	if (first != second)
		return first > second ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	const int functions = g_strcmp0(x->function, y->function);
	const int processes = g_strcmp0(x->process, y->process);
	return functions   ? functions
	       : processes ? processes
			   : g_strcmp0(x->container, y->container);
}

struct top_rows *top_rows_new(const struct top_round *round, const struct top_view *view)
{
	struct top_rows *rows = g_new(struct top_rows, 1);
	rows->strings = vms_texts_new();
	rows->rows = g_array_new(FALSE, TRUE, sizeof(struct top_row));
	struct builder builder = {
		.view = view,
		.strings = rows->strings,
		.rows = rows->rows,
		.indices = g_hash_table_new_full(hash_row, equal_rows, g_free, NULL),
	};
	for (guint i = 0; i < round->guests->len; i++) {
		const struct top_guest *guest = g_ptr_array_index(round->guests, i);
		size_t n = 0;
		const struct vms_profile_tree *trees =
			guest->profile ? vms_profile_trees(guest->profile, &n) : NULL;
		for (size_t j = 0; j < n; j++)
			add_tree(&builder, guest, &trees[j]);
	}
	g_array_sort_with_data(rows->rows, compare_rows, (gpointer)view);
	g_hash_table_unref(builder.indices);
	return rows;
}

void top_rows_free(struct top_rows *rows)
{
	if (!rows)
		return;
	g_array_unref(rows->rows);
	vms_texts_free(rows->strings);
	g_free(rows);
}
