/* SPDX-License-Identifier: MIT */
#include "disk/lvm_text.h"
#include <string.h>

#define DEPTH_LIMIT 8
#define NODES_LIMIT (1u << 16) /* sections and values, those of lists too */

/* What is left of a text. */
struct input {
	const char *at, *end;
	unsigned budget; /* nodes that may still be made */
};

static void free_node(void *data)
{
	vms_lvm_node_free(data);
}

void vms_lvm_node_free(struct vms_lvm_node *node)
{
	if (!node)
		return;
	g_free(node->name);
	if (node->values)
		g_ptr_array_unref(node->values);
	if (node->children)
		g_ptr_array_unref(node->children);
	g_free(node);
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

static bool add_value(struct input *input, GPtrArray *values)
{
	char *value = take(input, '"') ? take_quoted(input) : take_word(input);
	if (!value || input->budget == 0) {
		g_free(value);
		return false;
	}
	input->budget--;
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
	if (!name || input->budget == 0) {
		g_free(name);
		return false;
	}
	input->budget--;
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

/* Adds all up to the end of the section, or of the text at depth 0. */
static bool fill_section(struct input *input, struct vms_lvm_node *section, unsigned depth)
{
	for (;;) {
		skip_space(input);
		if (input->at == input->end || !*input->at)
			return depth == 0;
		if (depth > 0 && take(input, '}'))
			return true;
		if (!add_node(input, section, depth))
			return false;
	}
}

struct vms_lvm_node *vms_lvm_text_parse(const char *text, size_t size)
{
	struct input input = { text, text + size, NODES_LIMIT };
	struct vms_lvm_node *root = g_new0(struct vms_lvm_node, 1);
	root->children = g_ptr_array_new_with_free_func(free_node);
	if (fill_section(&input, root, 0))
		return root;
	vms_lvm_node_free(root);
	return NULL;
}

/* ---- lookups ---------------------------------------------------------- */

static const struct vms_lvm_node *find(const struct vms_lvm_node *node, const char *name)
{
	for (guint i = 0; node && i < node->children->len; i++) {
		const struct vms_lvm_node *child = node->children->pdata[i];
		if (strcmp(child->name, name) == 0)
			return child;
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
