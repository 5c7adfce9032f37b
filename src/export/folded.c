/* SPDX-License-Identifier: MIT */
/*
 * Folded stacks: each line has a distinct path, with semicolons between the frames, and its number
 * of samples. This is the format of Brendan Gregg's stackcollapse tools, which many others read.
 * They all ignore a line that does not end in a number. Such a line says that a run ended early.
 */
#include "base/keyed_hash.h"
#include "export/export-private.h"
#include "sample/tree.h"
#include <inttypes.h>

struct folder {
	const struct vms_profile *profile;
	GHashTable *ids;  /* from a frame's text to its index + 1 */
	GPtrArray *texts; /* by index; owned by `ids` */
	struct vms_tree *tree;
};

/* Replaces the characters that separate frames and lines. */
static void replace_separators(char *text)
{
	for (; *text; text++) {
		if (*text == ';')
			*text = ':';
		else if (g_ascii_iscntrl(*text))
			*text = '?';
	}
}

/* Makes the key of a frame. Labels with the same text get the same key. Takes the text. */
static struct vms_tree_key make_text_key(struct folder *folder, char *text)
{
	replace_separators(text);
	gpointer id = g_hash_table_lookup(folder->ids, text);
	if (id) {
		g_free(text);
	} else {
		g_ptr_array_add(folder->texts, text);
		id = GUINT_TO_POINTER(folder->texts->len);
		g_hash_table_insert(folder->ids, text, id);
	}
	return (struct vms_tree_key) { .kind = VMS_TREE_LABEL, .value = GPOINTER_TO_UINT(id) - 1 };
}

static struct vms_tree_key make_label_key(struct folder *folder, uint32_t label)
{
	GString *text = g_string_new(NULL);
	vms_export_append_name(text, vms_profile_label(folder->profile, label));
	return make_text_key(folder, g_string_free(text, FALSE));
}

/* Adds a profile's tree to the tree of texts. */
static void fold_tree(struct folder *folder, const struct vms_profile_tree *tree)
{
	g_autofree uint32_t *to = g_new(uint32_t, tree->n_nodes);
	uint32_t root = VMS_TREE_ROOT;

	if (tree->vcpu != VMS_ALL_VCPUS)
		root = vms_tree_child(folder->tree, root,
				      make_text_key(folder, vms_export_tree_name(tree)));
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_profile_node *node = &tree->nodes[i];
		uint32_t parent = node->parent == VMS_NO_NODE ? root : to[node->parent];
		to[i] = vms_tree_child(folder->tree, parent, make_label_key(folder, node->label));
		if (to[i] == VMS_TREE_FULL) /* out of memory: the innermost frames are left out */
			to[i] = parent;
		folder->tree->nodes[to[i]].self += node->self;
	}
}

static void print_paths(const struct folder *folder, struct vms_export_sink *out)
{
	const struct vms_tree_node *nodes = folder->tree->nodes;
	g_autoptr(GArray) path = g_array_new(FALSE, FALSE, sizeof(uint32_t));

	for (uint32_t i = 0; i < folder->tree->n_nodes; i++) {
		if (nodes[i].self == 0)
			continue;
		g_array_set_size(path, 0);
		for (uint32_t node = i; node != VMS_TREE_ROOT; node = nodes[node].parent)
			g_array_append_val(path, node);
		for (guint j = path->len; j-- > 0;) {
			uint32_t node = g_array_index(path, uint32_t, j);
			g_string_append(out->text,
					g_ptr_array_index(folder->texts, nodes[node].key.value));
			g_string_append_c(out->text, j ? ';' : ' ');
		}
		g_string_append_printf(out->text, "%" PRIu64 "\n", nodes[i].self);
		if (!vms_export_drain(out))
			break;
	}
}

static void write_folded(const struct vms_profile *profile, const struct vms_run_facts *facts,
			 const struct vms_export_options *options G_GNUC_UNUSED,
			 struct vms_export_sink *out)
{
	size_t n;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);
	struct folder folder = {
		.profile = profile,
		.ids = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL),
		.texts = g_ptr_array_new(),
		.tree = vms_tree_new(VMS_TREE_LIMIT),
	};
	if (vms_sample_ended_early(facts->end))
		g_string_append_printf(out->text, "# %s\n", facts->title);
	for (size_t i = 0; i < n; i++)
		fold_tree(&folder, &trees[i]);
	print_paths(&folder, out);
	vms_tree_free(folder.tree);
	g_ptr_array_unref(folder.texts);
	g_hash_table_unref(folder.ids);
}

const struct vms_exporter vms_exporter_folded = {
	.name = "folded",
	.suffix = ".folded",
	.help = "a line per stack, \"frame;frame;frame COUNT\", for flamegraph.pl, speedscope and "
		"others",
	.write = write_folded,
};
