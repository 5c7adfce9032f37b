/* SPDX-License-Identifier: MIT */
#include "disk/lvm_text.h"
#include <string.h>

#define DEPTH_LIMIT 8
#define NODES_LIMIT (1u << 16) /* sections and values, those of lists too */
#define NODE_BYTES  160	       /* that one takes besides its text, with its places in lists */
#define NODE_STEPS  10	       /* to make one */
#define FEW	    8	       /* children that are looked through one by one */

/* What is left of a text. */
struct input {
	const char *at, *end;
	unsigned n_nodes; /* that may still be made */
	struct vms_lvm_text *text;
};

static void free_node(void *data)
{
	struct vms_lvm_node *node = data;
	if (!node)
		return;
	g_free(node->name);
	if (node->values)
		g_ptr_array_unref(node->values);
	if (node->by_name)
		g_ptr_array_unref(node->by_name);
	if (node->children)
		g_ptr_array_unref(node->children);
	g_free(node);
}

void vms_lvm_text_free(struct vms_lvm_text *text)
{
	if (!text)
		return;
	free_node(text->root);
	vms_budget_give_back(text->budget, VMS_BUDGET_BYTES, text->bytes);
	g_free(text);
}

/* ---- words ------------------------------------------------------------ */

/* Goes to the next character that is no space and in no comment. */
static void skip_space(struct input *input)
{
	bool in_comment = false;
	for (; input->at < input->end; input->at++) {
		if (*input->at == '#')
			in_comment = true;
		else if (*input->at == '\n')
			in_comment = false;
		else if (!in_comment && !g_ascii_isspace(*input->at))
			return;
	}
}

/* Takes the next character if it is `c`. */
static bool take(struct input *input, char c)
{
	skip_space(input);
	if (input->at == input->end || *input->at != c)
		return false;
	input->at++;
	return true;
}

static bool is_of_word(char c)
{
	return g_ascii_isalnum(c) || (c && strchr("_.+-/", c));
}

/* Returns the next word, or NULL if there is none. */
static char *take_word(struct input *input)
{
	skip_space(input);
	const char *begin = input->at;
	while (input->at < input->end && is_of_word(*input->at))
		input->at++;
	return input->at > begin ? g_strndup(begin, (gsize)(input->at - begin)) : NULL;
}

/* Returns the rest of a string whose first quote was taken. NULL if it does not end. */
static char *take_quoted(struct input *input)
{
	g_autoptr(GString) text = g_string_new(NULL);
	for (; input->at < input->end && *input->at; input->at++) {
		if (*input->at == '"') {
			input->at++;
			return g_string_free(g_steal_pointer(&text), FALSE);
		}
		if (*input->at == '\\' && ++input->at == input->end)
			break;
		g_string_append_c(text, *input->at);
	}
	return NULL;
}

/* ---- nodes ------------------------------------------------------------ */

/* Counts a node or a value with a text. False if there may be no more. */
static bool count_node(struct input *input, const char *name)
{
	const uint64_t bytes = NODE_BYTES + strlen(name);
	if (input->n_nodes == 0 || !vms_budget_step(input->text->budget, NODE_STEPS) ||
	    !vms_budget_take(input->text->budget, VMS_BUDGET_BYTES, bytes))
		return false;
	input->n_nodes--;
	input->text->bytes += bytes;
	return true;
}

static bool add_value(struct input *input, GPtrArray *values)
{
	char *value = take(input, '"') ? take_quoted(input) : take_word(input);
	if (!value || !count_node(input, value)) {
		g_free(value);
		return false;
	}
	g_ptr_array_add(values, value);
	return true;
}

static bool add_list(struct input *input, GPtrArray *values)
{
	while (!take(input, ']'))
		if (!add_value(input, values) ||
		    (!take(input, ',') && input->at < input->end && *input->at != ']'))
			return false;
	return true;
}

static bool fill_section(struct input *input, struct vms_lvm_node *section, unsigned depth);

/* Adds what comes next: a section or a value. */
static bool add_node(struct input *input, struct vms_lvm_node *parent, unsigned depth)
{
	char *name = take_word(input);
	if (!name || !count_node(input, name)) {
		g_free(name);
		return false;
	}
	const bool is_value = take(input, '=');
	struct vms_lvm_node *node = g_new0(struct vms_lvm_node, 1);
	node->name = name;
	g_ptr_array_add(parent->children, node);
	if (is_value) {
		node->values = g_ptr_array_new_with_free_func(g_free);
		return take(input, '[') ? add_list(input, node->values)
					: add_value(input, node->values);
	}
	node->children = g_ptr_array_new_with_free_func(free_node);
	return depth < DEPTH_LIMIT && take(input, '{') && fill_section(input, node, depth + 1);
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
	const struct vms_lvm_node *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

/* Sorts what a section has, unless that is little. The sort is stable: the first name stays so. */
static bool index_section(struct input *input, struct vms_lvm_node *section)
{
	const uint64_t n = section->children->len;
	if (n <= FEW)
		return true;
	uint64_t length = 0;
	for (guint i = 0; i < n; i++) {
		const struct vms_lvm_node *child = section->children->pdata[i];
		length += strlen(child->name);
	}
	/* Each level of a merge sort compares each name at most twice. */
	const uint64_t levels = g_bit_storage((gulong)n);
	if (!vms_budget_step(input->text->budget, levels * (n + VMS_STEPS_OF_BYTES(length))))
		return false;
	section->by_name = g_ptr_array_sized_new((guint)n);
	for (guint i = 0; i < n; i++)
		g_ptr_array_add(section->by_name, section->children->pdata[i]);
	g_ptr_array_sort(section->by_name, compare_names);
	return true;
}

/* Adds all up to the end of the section, or of the text at depth 0. */
static bool fill_section(struct input *input, struct vms_lvm_node *section, unsigned depth)
{
	for (;;) {
		skip_space(input);
		if (input->at == input->end || !*input->at)
			return depth == 0 && index_section(input, section);
		if (depth > 0 && take(input, '}'))
			return index_section(input, section);
		if (!add_node(input, section, depth))
			return false;
	}
}

struct vms_lvm_text *vms_lvm_text_parse(struct vms_bytes bytes)
{
	struct vms_lvm_text *text = g_new0(struct vms_lvm_text, 1);
	const char *begin = (const char *)bytes.data;
	struct input input = { begin, begin + bytes.size, NODES_LIMIT, text };
	text->budget = bytes.budget;
	text->root = g_new0(struct vms_lvm_node, 1);
	text->root->children = g_ptr_array_new_with_free_func(free_node);
	if (vms_budget_step(bytes.budget, bytes.size / 4) && fill_section(&input, text->root, 0))
		return text;
	vms_lvm_text_free(text);
	return NULL;
}

/* ---- lookups ---------------------------------------------------------- */

/* Finds the first child that is not before `name`, in a list that is sorted. */
static guint find_place(const GPtrArray *sorted, const char *name)
{
	guint low = 0, high = sorted->len;
	while (low < high) {
		const guint middle = low + (high - low) / 2;
		const struct vms_lvm_node *child = sorted->pdata[middle];
		if (strcmp(child->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct vms_lvm_node *find(const struct vms_lvm_node *node, const char *name)
{
	if (!node)
		return NULL;
	const GPtrArray *children = node->by_name ?: node->children;
	for (guint i = node->by_name ? find_place(children, name) : 0; i < children->len; i++) {
		const struct vms_lvm_node *child = children->pdata[i];
		if (strcmp(child->name, name) == 0)
			return child;
		if (node->by_name)
			return NULL;
	}
	return NULL;
}

const struct vms_lvm_node *vms_lvm_node_section(const struct vms_lvm_node *node, const char *name)
{
	const struct vms_lvm_node *found = find(node, name);
	return found && found->children ? found : NULL;
}

const char *vms_lvm_node_item(const struct vms_lvm_node *node, const char *name, unsigned i)
{
	const struct vms_lvm_node *found = find(node, name);
	return found && found->values && i < found->values->len ? found->values->pdata[i] : NULL;
}

const char *vms_lvm_node_string(const struct vms_lvm_node *node, const char *name)
{
	return vms_lvm_node_item(node, name, 0);
}

bool vms_lvm_node_number(const struct vms_lvm_node *node, const char *name, uint64_t *ret)
{
	const char *text = vms_lvm_node_string(node, name);
	return text && g_ascii_string_to_unsigned(text, 10, 0, G_MAXUINT64, ret, NULL);
}
