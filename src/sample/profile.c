/* SPDX-License-Identifier: MIT */
/*
 * Makes a profile of sampled trees. Every key of the trees gets a label. Children of one parent
 * that have the same label become one node. Siblings are sorted. All of this is done in loops over
 * arrays in which a parent comes before its children.
 */
#include "base/budget.h"
#include "base/keyed_hash.h"
#include "base/text.h"
#include "base/texts.h"
#include "sample/profile-private.h"
#include "sample/profile_samples.h"
#include <inttypes.h>
#include <string.h>

#define LEFT_OUT       "[left out]" /* a name for which there is no budget */
#define STEPS_OF_LABEL 10
#define STEPS_OF_NODE  50 /* to find it among others, and to sort it twice */
#define ENTRY_BYTES    32 /* of a text, in a table */
#define LABEL_BYTES    200

struct vms_profile {
	struct vms_texts *strings;
	GArray *labels;	 /* struct vms_label */
	GArray *keys;	 /* struct vms_tree_key by label: the first one that has it */
	GArray *trees;	 /* struct vms_profile_tree */
	GArray *samples; /* struct vms_profile_sample */
	GArray *threads; /* struct vms_profile_thread */
	struct vms_profile_function *functions;
	size_t n_functions;
	bool leaf_first;
};

/* ---- labels ----------------------------------------------------------- */

/* Keys of one identity have one label. Strings are interned, so equal ones are one pointer. */
struct identity {
	const char *name, *module;
	enum vms_label_kind kind;
	bool is_user;
	uint64_t va;	  /* 0 if the name is enough */
	uint32_t process; /* of an address without a name or module */
};

struct builder {
	const struct vms_profile_source *source;
	struct vms_profile *profile;
	struct vms_profile_samples samples;
	struct vms_tree *keys;	/* every key seen, so that each is looked up only once */
	GArray *label_of_key;	/* the label of each node of `keys` */
	GHashTable *identities; /* struct identity to label + 1 */
};

static guint hash_identity(gconstpointer data)
{
	const struct identity *id = data;
	const uint64_t parts[] = { (uintptr_t)id->name, (uintptr_t)id->module, id->va,
				   (uint64_t)id->process << 32 | (uint64_t)id->kind << 1 |
					   id->is_user };
	return (guint)vms_keyed_hash(parts, sizeof(parts));
}

static gboolean equal_identities(gconstpointer a, gconstpointer b)
{
	const struct identity *x = a, *y = b;
	return x->name == y->name && x->module == y->module && x->kind == y->kind &&
	       x->is_user == y->is_user && x->va == y->va && x->process == y->process;
}

/* A text may be part of many names, as the path of a file. */
static const char *intern_text(struct builder *builder, const char *text)
{
	struct vms_budget *budget = builder->source->budget;
	const size_t length = text ? strlen(text) : 0;
	if (!text)
		return NULL;
	if (!vms_budget_step(budget, STEPS_OF_LABEL + length / 2))
		return LEFT_OUT;
	g_autofree char *clean = g_strdup(text);
	vms_text_clean(clean);
	const char *known = vms_texts_find(builder->profile->strings, clean);
	if (known)
		return known;
	if (!vms_budget_take(budget, VMS_BUDGET_BYTES, length + ENTRY_BYTES))
		return LEFT_OUT;
	return vms_texts_keep(builder->profile->strings, clean);
}

G_GNUC_PRINTF(2, 3)
static const char *intern_printf(struct builder *builder, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	g_autofree char *text = g_strdup_vprintf(format, args);
	va_end(args);
	return intern_text(builder, text);
}

static const struct vms_process *find_process(const struct builder *builder,
					      const struct vms_tree_key *key)
{
	return vms_symbolizer_process(builder->source->symbolizer, key->owner);
}

static const char *name_process(struct builder *builder, const struct vms_process *process)
{
	if (!process)
		return intern_text(builder, "[unknown process]");
	if (builder->source->flags & VMS_PROFILE_BY_CONTAINER)
		return intern_text(builder, process->container ?: "[no container]");
	/* The idle tasks of all CPUs have the process id 0. */
	const char *comm = process->is_idle ? "swapper" : process->comm;
	if (builder->source->flags & VMS_PROFILE_BY_COMM)
		return intern_text(builder, comm);
	return intern_printf(builder, "%s (%" PRIu32 ")", comm, process->pid);
}

static const char *name_marker(struct builder *builder, uint64_t value)
{
	if (value == VMS_TREE_OUT_OF_NODES)
		return intern_text(builder, "[out of nodes]");
	return intern_printf(builder, "[%s]", vms_walk_end_text((enum vms_walk_end)value));
}

/* The state of a thread off its CPU, and the kernel's function that it waits in. */
static const char *name_wait(struct builder *builder, const struct vms_tree_key *key)
{
	const char state = (char)(key->value >> 56);
	const uint64_t rest = key->value & ~(UINT64_C(0xff) << 56);
	struct vms_location location;
	if (state == 'R')
		return intern_text(builder, "[waiting: R for a CPU]");
	if (rest &&
	    vms_symbolizer_locate(builder->source->symbolizer, VMS_KERNEL_SPACE, key->owner,
				  rest | UINT64_C(0xff) << 56, &location) &&
	    location.symbol)
		return intern_printf(builder, "[waiting: %c %s]", state, location.symbol);
	return intern_printf(builder, "[waiting: %c]", state);
}

static bool is_loaded(const struct vms_tree_key *key)
{
	return key->kind == VMS_TREE_LOADED_PC || key->kind == VMS_TREE_LOADED_RETURN;
}

static bool locate_key(struct builder *builder, const struct vms_tree_key *key, uint64_t va,
		       struct vms_location *ret)
{
	const bool loaded = is_loaded(key);
	return vms_symbolizer_locate(builder->source->symbolizer,
				     loaded ? VMS_KERNEL_SPACE : key->owner,
				     loaded ? key->owner : 0, va, ret);
}

/*
 * Labels code that has a symbol, by its function or by its address. A function of a module has one
 * identity wherever the module was loaded.
 */
static void label_symbol(struct builder *builder, const struct vms_tree_key *key, bool by_address,
			 struct vms_location *location, struct vms_label *label,
			 struct identity *id)
{
	label->name = intern_text(builder, location->symbol);
	label->va = by_address ? key->value : location->start;
	label->offset = key->value - location->start;
	/*
	 * The kernel may have several functions of one name, so the address is part of the
	 * identity. Each process may have user code at another address, so the name must do.
	 */
	id->va = label->is_user ? label->offset : label->va;
	if (by_address)
		return;
	label->offset = 0;
	id->va = label->is_user ? 0 : label->va - location->part;
	if (location->source) /* show the function's source, not that of the first address seen */
		locate_key(builder, key, location->start, location);
}

/* Returns what follows the last slash. */
static const char *skip_folders(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

static void label_code(struct builder *builder, const struct vms_tree_key *key, bool by_address,
		       struct vms_label *label, struct identity *id)
{
	/* A call may be the last instruction of its function, or even of its line. */
	unsigned back = key->kind == VMS_TREE_RETURN || key->kind == VMS_TREE_LOADED_RETURN;
	struct vms_location location;

	label->kind = VMS_LABEL_ADDRESS;
	label->is_user = !is_loaded(key) && key->owner != VMS_KERNEL_SPACE;
	label->va = id->va = key->value;
	id->process = key->owner;
	if (!locate_key(builder, key, key->value - back, &location))
		return;
	label->module = intern_text(builder, location.module);
	if (location.symbol)
		label_symbol(builder, key, by_address, &location, label, id);
	else if (location.module)
		label->name = intern_printf(builder, "%s+0x%" PRIx64, skip_folders(location.module),
					    location.offset + back);
	else
		return;
	label->kind = VMS_LABEL_FUNCTION;
	if (!location.symbol)
		id->va = 0;
	id->process = 0;
	label->source = intern_text(builder, location.source);
	label->line = location.line;
}

/* Makes the label of a key, or finds that of another key with the same identity. */
static uint32_t make_label(struct builder *builder, const struct vms_tree_key *key, bool by_address)
{
	struct vms_label label = { .kind = VMS_LABEL_MARKER };
	struct identity id = { 0 };

	switch ((enum vms_tree_kind)key->kind) {
	case VMS_TREE_PROCESS:
		label.kind = VMS_LABEL_PROCESS;
		label.name = name_process(builder, find_process(builder, key));
		label.container =
			find_process(builder, key)
				? intern_text(builder, find_process(builder, key)->container)
				: NULL;
		break;
	case VMS_TREE_IDLE:
		label.kind = VMS_LABEL_IDLE;
		label.name = intern_text(builder, "[idle]");
		break;
	case VMS_TREE_PC:
	case VMS_TREE_RETURN:
	case VMS_TREE_LOADED_PC:
	case VMS_TREE_LOADED_RETURN: label_code(builder, key, by_address, &label, &id); break;
	case VMS_TREE_WAIT: label.name = name_wait(builder, key); break;
	case VMS_TREE_ROLE:
		label.name =
			intern_text(builder, g_ptr_array_index(builder->source->roles, key->value));
		break;
	case VMS_TREE_GUEST:
		label.name = intern_text(builder, key->value ? "[guest]" : "[guest: not known]");
		break;
	case VMS_TREE_MARKER: label.name = name_marker(builder, key->value); break;
	case VMS_TREE_LABEL: g_assert_not_reached();
	}
	id.kind = label.kind;
	id.is_user = label.is_user;
	id.name = label.name;
	id.module = label.module;

	gpointer found = g_hash_table_lookup(builder->identities, &id);
	if (found)
		return GPOINTER_TO_UINT(found) - 1;
	vms_budget_take(builder->source->budget, VMS_BUDGET_BYTES, LABEL_BYTES);
	GArray *labels = builder->profile->labels;
	g_array_append_val(labels, label);
	g_array_append_vals(builder->profile->keys, key, 1);
	g_hash_table_insert(builder->identities, g_memdup2(&id, sizeof(id)),
			    GUINT_TO_POINTER(labels->len));
	return labels->len - 1;
}

static uint32_t get_label(struct builder *builder, const struct vms_tree_key *key)
{
	uint32_t index = vms_tree_child(builder->keys, VMS_TREE_ROOT, *key);
	if (index < builder->label_of_key->len)
		return g_array_index(builder->label_of_key, uint32_t, index);
	bool by_address = builder->source->flags & VMS_PROFILE_BY_ADDRESS;
	uint32_t label = make_label(builder, key, by_address);
	if (index == builder->label_of_key->len) /* false for VMS_TREE_FULL */
		g_array_append_val(builder->label_of_key, label);
	return label;
}

/* ---- trees ------------------------------------------------------------ */

/* Returns the node of samples whose outermost frame has no room. */
static uint32_t get_out_of_nodes(struct builder *builder, struct vms_tree *merged)
{
	const struct vms_tree_key marker = { .kind = VMS_TREE_MARKER,
					     .value = VMS_TREE_OUT_OF_NODES,
					     .owner = VMS_KERNEL_SPACE };
	const struct vms_tree_key key = { .kind = VMS_TREE_LABEL,
					  .value = get_label(builder, &marker) };
	const uint32_t node = vms_tree_child(merged, VMS_TREE_ROOT, key);
	return node == VMS_TREE_FULL ? VMS_TREE_ROOT : node;
}

/* Adds the sampled tree of a vCPU to a tree whose keys are labels. */
static void merge_tree(struct builder *builder, struct vms_tree *merged, size_t vcpu)
{
	const struct vms_profile_source *source = builder->source;
	const struct vms_tree *tree = source->trees[vcpu];
	if (!tree)
		return;
	const bool skips_processes = source->flags & VMS_PROFILE_WITHOUT_PROCESSES;
	g_autofree uint32_t *to = g_new(uint32_t, tree->n_nodes);
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_tree_node *node = &tree->nodes[i];
		uint32_t parent = node->parent == VMS_TREE_ROOT ? VMS_TREE_ROOT : to[node->parent];
		struct vms_tree_key key = { .kind = VMS_TREE_LABEL };
		/* An outermost process has no samples of its own: there is a frame or a marker. */
		if (node->key.kind == VMS_TREE_PROCESS && skips_processes) {
			to[i] = parent;
		} else if (vms_budget_step(source->budget, STEPS_OF_NODE) &&
			   vms_budget_take(source->budget, VMS_BUDGET_BYTES,
					   VMS_TREE_NODE_BYTES + sizeof(struct vms_profile_node))) {
			key.value = get_label(builder, &node->key);
			to[i] = vms_tree_child(merged, parent, key);
		} else {
			to[i] = VMS_TREE_FULL;
		}
		if (to[i] == VMS_TREE_FULL) /* the innermost frames are left out */
			to[i] = parent == VMS_TREE_ROOT ? get_out_of_nodes(builder, merged)
							: parent;
		if (to[i] != VMS_TREE_ROOT)
			merged->nodes[to[i]].self += node->self;
	}
	vms_profile_samples_add(&builder->samples, tree, source->times ? source->times[vcpu] : NULL,
				to, builder->profile->trees->len, (uint32_t)vcpu);
}

/* Orders labels by what they say, so that every run gives the same order. */
static int compare_labels(const struct vms_profile *profile, uint32_t a, uint32_t b)
{
	const struct vms_label *x = vms_profile_label(profile, a);
	const struct vms_label *y = vms_profile_label(profile, b);
	if (x->va != y->va)
		return x->va < y->va ? -1 : 1;
	int names = g_strcmp0(x->name, y->name);
	return names ? names : a < b ? -1 : a > b;
}

struct order {
	const struct vms_profile *profile;
	const struct vms_profile_node *nodes;
};

static int compare_nodes(const void *a, const void *b, void *data)
{
	const struct order *order = data;
	const struct vms_profile_node *x = &order->nodes[*(const uint32_t *)a];
	const struct vms_profile_node *y = &order->nodes[*(const uint32_t *)b];
	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return compare_labels(order->profile, x->label, y->label);
}

/* Links the children of every node, and the outermost nodes. Returns the first outermost node. */
static uint32_t link_siblings(const struct vms_profile *profile, struct vms_profile_node *nodes,
			      uint32_t n)
{
	struct order order = { profile, nodes };
	g_autofree uint32_t *sorted = g_new(uint32_t, n);
	uint32_t first_root = VMS_NO_NODE;

	for (uint32_t i = 0; i < n; i++)
		sorted[i] = i;
	g_qsort_with_data(sorted, (gint)n, sizeof(*sorted), compare_nodes, &order);
	for (uint32_t i = n; i-- > 0;) {
		struct vms_profile_node *node = &nodes[sorted[i]];
		uint32_t *first = node->parent == VMS_NO_NODE ? &first_root
							      : &nodes[node->parent].first_child;
		if (node->total == 0) /* the rest of its path had no room */
			continue;
		node->next_sibling = *first;
		*first = sorted[i];
	}
	return first_root;
}

static void add_tree(struct builder *builder, int vcpu, const struct vms_tree *merged)
{
	struct vms_profile_tree tree = { .vcpu = vcpu, .n_nodes = merged->n_nodes };
	struct vms_profile_node *nodes = g_new(struct vms_profile_node, merged->n_nodes);

	G_STATIC_ASSERT(VMS_TREE_ROOT == VMS_NO_NODE);
	for (uint32_t i = 0; i < tree.n_nodes; i++) {
		nodes[i] = (struct vms_profile_node) {
			.label = (uint32_t)merged->nodes[i].key.value,
			.parent = merged->nodes[i].parent,
			.first_child = VMS_NO_NODE,
			.next_sibling = VMS_NO_NODE,
			.self = merged->nodes[i].self,
			.total = merged->nodes[i].self,
		};
	}
	for (uint32_t i = tree.n_nodes; i-- > 0;) {
		if (nodes[i].parent == VMS_NO_NODE)
			tree.samples += nodes[i].total;
		else
			nodes[nodes[i].parent].total += nodes[i].total;
	}
	tree.first_root = link_siblings(builder->profile, nodes, tree.n_nodes);
	tree.nodes = nodes;
	g_array_append_val(builder->profile->trees, tree);
}

static void build_trees(struct builder *builder)
{
	const struct vms_profile_source *source = builder->source;
	bool merge_all = source->flags & VMS_PROFILE_MERGE_VCPUS;

	for (size_t i = 0; i < source->n_trees;) {
		g_autoptr(vms_tree) merged = vms_tree_new(VMS_TREE_LIMIT);
		int vcpu = merge_all ? VMS_ALL_VCPUS : (int)i;
		do {
			merge_tree(builder, merged, i++);
		} while (merge_all && i < source->n_trees);
		add_tree(builder, vcpu, merged);
	}
}

/* ---- functions -------------------------------------------------------- */

/*
 * Returns the label of the function for each label of the trees, newly allocated. It is the same
 * label if the trees are by function. The labels that are made here follow all labels of the trees.
 */
static uint32_t *find_functions(struct builder *builder)
{
	bool by_address = builder->source->flags & VMS_PROFILE_BY_ADDRESS;
	guint n = builder->profile->labels->len;
	uint32_t *function_of = g_new(uint32_t, n);

	g_hash_table_remove_all(builder->identities);
	for (uint32_t i = 0; i < n; i++) {
		struct vms_tree_key key =
			g_array_index(builder->profile->keys, struct vms_tree_key, i);
		function_of[i] = by_address ? make_label(builder, &key, false) : i;
	}
	return function_of;
}

/* The state of a walk through a tree that sums the samples of every function. */
struct summing {
	const uint32_t *function_of;	   /* by label of the tree */
	uint32_t *open;			   /* how often a function is on the path to the node */
	struct vms_profile_function *sums; /* by function */
};

/* Returns the node after `node` in an order with parents first. Closes the nodes that it leaves. */
static uint32_t step_to_next_node(const struct vms_profile_tree *tree, uint32_t node,
				  const struct summing *summing)
{
	if (tree->nodes[node].first_child != VMS_NO_NODE)
		return tree->nodes[node].first_child;
	while (node != VMS_NO_NODE) {
		summing->open[summing->function_of[tree->nodes[node].label]]--;
		if (tree->nodes[node].next_sibling != VMS_NO_NODE)
			return tree->nodes[node].next_sibling;
		node = tree->nodes[node].parent;
	}
	return VMS_NO_NODE;
}

static void sum_functions(const struct vms_profile *profile, const struct vms_profile_tree *tree,
			  const struct summing *summing)
{
	for (uint32_t i = tree->first_root; i != VMS_NO_NODE;
	     i = step_to_next_node(tree, i, summing)) {
		const struct vms_profile_node *node = &tree->nodes[i];
		uint32_t function = summing->function_of[node->label];
		if (summing->open[function]++ == 0)
			summing->sums[function].total += node->total;
		if (!profile->leaf_first)
			summing->sums[function].self += node->self;
		else if (node->parent == VMS_NO_NODE)
			summing->sums[function].self += node->total;
	}
}

static int compare_functions(const void *a, const void *b, void *profile)
{
	const struct vms_profile_function *x = a, *y = b;
	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return compare_labels(profile, x->label, y->label);
}

static void build_functions(struct builder *builder)
{
	struct vms_profile *profile = builder->profile;
	g_autofree uint32_t *function_of = find_functions(builder);
	guint n_labels = profile->labels->len;
	g_autofree uint32_t *open = g_new0(uint32_t, n_labels);
	profile->functions = g_new0(struct vms_profile_function, n_labels);
	struct summing summing = { function_of, open, profile->functions };
	for (guint i = 0; i < profile->trees->len; i++)
		sum_functions(profile, &g_array_index(profile->trees, struct vms_profile_tree, i),
			      &summing);
	for (uint32_t i = 0; i < n_labels; i++) {
		enum vms_label_kind kind = vms_profile_label(profile, i)->kind;
		struct vms_profile_function function = profile->functions[i];
		function.label = i;
		if (function.total > 0 && kind != VMS_LABEL_PROCESS && kind != VMS_LABEL_MARKER)
			profile->functions[profile->n_functions++] = function;
	}
	g_qsort_with_data(profile->functions, (gint)profile->n_functions,
			  sizeof(*profile->functions), compare_functions, profile);
}

/* ---- the profile ------------------------------------------------------ */

struct vms_profile *vms_profile_new(const struct vms_profile_source *source)
{
	struct vms_profile *profile = g_new0(struct vms_profile, 1);
	profile->strings = vms_texts_new();
	profile->labels = g_array_new(FALSE, FALSE, sizeof(struct vms_label));
	profile->keys = g_array_new(FALSE, FALSE, sizeof(struct vms_tree_key));
	profile->trees = g_array_new(FALSE, FALSE, sizeof(struct vms_profile_tree));
	profile->leaf_first = source->leaf_first;

	struct builder builder = {
		.source = source,
		.profile = profile,
		.keys = vms_tree_new(VMS_TREE_LIMIT),
		.label_of_key = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
		.identities = g_hash_table_new_full(hash_identity, equal_identities, g_free, NULL),
	};
	vms_profile_samples_init(&builder.samples, source, profile->strings);
	build_trees(&builder);
	build_functions(&builder);
	vms_profile_samples_finish(&builder.samples);
	profile->samples = g_array_ref(builder.samples.timed);
	profile->threads = g_array_ref(builder.samples.threads);
	vms_profile_samples_clear(&builder.samples);
	g_hash_table_unref(builder.identities);
	g_array_unref(builder.label_of_key);
	vms_tree_free(builder.keys);
	return profile;
}

void vms_profile_free(struct vms_profile *profile)
{
	if (!profile)
		return;
	for (guint i = 0; i < profile->trees->len; i++)
		g_free((void *)g_array_index(profile->trees, struct vms_profile_tree, i).nodes);
	g_array_unref(profile->trees);
	g_array_unref(profile->samples);
	g_array_unref(profile->threads);
	g_array_unref(profile->labels);
	g_array_unref(profile->keys);
	g_free(profile->functions);
	vms_texts_free(profile->strings);
	g_free(profile);
}

const struct vms_label *vms_profile_label(const struct vms_profile *profile, uint32_t label)
{
	return &g_array_index(profile->labels, struct vms_label, label);
}

uint32_t vms_profile_label_space(const struct vms_profile *profile, uint32_t label)
{
	const struct vms_tree_key *key = &g_array_index(profile->keys, struct vms_tree_key, label);
	const bool is_code = key->kind == VMS_TREE_PC || key->kind == VMS_TREE_RETURN;
	return is_code ? key->owner : VMS_NO_SPACE;
}

bool vms_profile_leaf_first(const struct vms_profile *profile)
{
	return profile->leaf_first;
}

const struct vms_profile_tree *vms_profile_trees(const struct vms_profile *profile, size_t *n)
{
	*n = profile->trees->len;
	return (const struct vms_profile_tree *)(const void *)profile->trees->data;
}

const struct vms_profile_function *vms_profile_functions(const struct vms_profile *profile,
							 size_t *n)
{
	*n = profile->n_functions;
	return profile->functions;
}

const struct vms_profile_sample *vms_profile_samples(const struct vms_profile *profile, size_t *n)
{
	*n = profile->samples->len;
	return (const struct vms_profile_sample *)(const void *)profile->samples->data;
}

const struct vms_profile_thread *vms_profile_threads(const struct vms_profile *profile, size_t *n)
{
	*n = profile->threads->len;
	return (const struct vms_profile_thread *)(const void *)profile->threads->data;
}
