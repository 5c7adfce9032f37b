/* SPDX-License-Identifier: MIT */
#include "sample/annotation.h"
#include "base/keyed_hash.h"
#include "base/nearest.h"
#include "base/text.h"
#include "sample/profile-private.h"
#include "symbol/binary.h"
#include "symbol/symbol_file.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Samples at an address. */
struct spot {
	uint64_t va, hits;
};

void vms_annotation_free(struct vms_annotation *annotation)
{
	if (!annotation)
		return;
	g_free(annotation->function);
	g_free(annotation->module);
	g_free(annotation->path);
	g_free(annotation->build_id);
	g_array_unref(annotation->spots);
	g_array_unref(annotation->instructions);
	vms_texts_free(annotation->strings);
	vms_binary_unref(annotation->binary);
	vms_symbolizer_unref(annotation->symbolizer);
	g_free(annotation);
}

static void free_annotation(void *annotation)
{
	vms_annotation_free(annotation);
}

/* ---- finding -------------------------------------------------------------------------- */

/* What tells functions of one name apart, wherever they are mapped in another process. */
struct identity {
	const char *module; /* of the profile: equal ones are one pointer */
	uint64_t start;	    /* of the kernel's */
	uint64_t is_user;
};

/* The functions of a name that have been found in a profile. */
struct finding {
	const struct vms_profile *profile;
	const char *function;
	GPtrArray *found;
	GHashTable *known; /* from a struct identity to a struct vms_annotation */
	struct vms_nearest nearest;
};

static guint hash_identity(gconstpointer data)
{
	return (guint)vms_keyed_hash(data, sizeof(struct identity));
}

static gboolean equal_identities(gconstpointer a, gconstpointer b)
{
	return memcmp(a, b, sizeof(struct identity)) == 0;
}

static struct vms_annotation *find_annotation(struct finding *finding, uint32_t number)
{
	const struct vms_label *label = vms_profile_label(finding->profile, number);
	const struct identity id = { label->module, label->is_user ? 0 : label->va - label->offset,
				     label->is_user };
	struct vms_annotation *annotation = g_hash_table_lookup(finding->known, &id);
	if (annotation)
		return annotation;
	annotation = g_new0(struct vms_annotation, 1);
	annotation->function = g_strdup(label->name);
	annotation->module = g_strdup(label->module);
	annotation->is_user = label->is_user;
	annotation->start = label->va - label->offset;
	annotation->spots = g_array_new(FALSE, FALSE, sizeof(struct spot));
	annotation->instructions =
		g_array_new(FALSE, FALSE, sizeof(struct vms_annotated_instruction));
	annotation->strings = vms_texts_new();
	annotation->space = vms_profile_label_space(finding->profile, number);
	g_ptr_array_add(finding->found, annotation);
	g_hash_table_insert(finding->known, g_memdup2(&id, sizeof(id)), annotation);
	return annotation;
}

/* Counts the samples of a tree in functions of that name. */
static void count_tree(struct finding *finding, const struct vms_profile_tree *tree)
{
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_profile_node *node = &tree->nodes[i];
		const struct vms_label *label = vms_profile_label(finding->profile, node->label);
		if (node->self == 0 || label->kind != VMS_LABEL_FUNCTION)
			continue;
		if (strcmp(label->name, finding->function) != 0) {
			vms_nearest_add(&finding->nearest, label->name);
			continue;
		}
		struct vms_annotation *annotation = find_annotation(finding, node->label);
		const struct spot spot = { annotation->start + label->offset, node->self };
		annotation->hits += node->self;
		g_array_append_val(annotation->spots, spot);
	}
}

/* True if the function lies where it was seen in that address space. */
static bool is_in_space(struct vms_annotation *annotation, uint32_t space)
{
	struct vms_location location;
	struct vms_mapping mapping;
	if (!vms_symbolizer_locate(annotation->symbolizer, space, 0, annotation->start,
				   &location) ||
	    g_strcmp0(location.symbol, annotation->function) != 0 ||
	    location.start != annotation->start)
		return false;
	annotation->size = location.size;
	annotation->space = space;
	if (space == VMS_KERNEL_SPACE ||
	    !vms_symbolizer_mapping(annotation->symbolizer, space, annotation->start, &mapping))
		return true;
	annotation->path = g_strdup(mapping.name);
	annotation->build_id = g_strdup(mapping.build_id);
	annotation->file_offset = annotation->start - mapping.start + mapping.offset;
	if (mapping.binary)
		annotation->binary = vms_binary_ref(mapping.binary);
	if (!annotation->build_id && mapping.binary)
		annotation->build_id = g_strdup(vms_binary_build_id(mapping.binary));
	return true;
}

/* Finds what the address space in which the function was seen has of it. */
static void find_space(struct vms_annotation *annotation, struct vms_symbolizer *symbolizer)
{
	const uint32_t seen = annotation->is_user ? annotation->space : VMS_KERNEL_SPACE;
	annotation->symbolizer = vms_symbolizer_ref(symbolizer);
	annotation->space = VMS_NO_SPACE;
	if (seen == VMS_NO_SPACE || !is_in_space(annotation, seen))
		is_in_space(annotation, VMS_NO_SPACE);
}

static int compare_spots(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;
	return x->va < y->va ? -1 : x->va > y->va;
}

static int compare_annotations(const void *a, const void *b)
{
	const struct vms_annotation *x = *(struct vms_annotation *const *)a,
				    *y = *(struct vms_annotation *const *)b;
	return x->hits > y->hits ? -1 : x->hits < y->hits;
}

GPtrArray *vms_annotations_find(const struct vms_profile *profile,
				struct vms_symbolizer *symbolizer, const char *function,
				GError **error)
{
	g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(free_annotation);
	g_autoptr(GHashTable) known =
		g_hash_table_new_full(hash_identity, equal_identities, g_free, NULL);
	struct finding finding = {
		.profile = profile, .function = function, .found = found, .known = known
	};
	size_t n;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);
	uint64_t samples = 0;
	vms_nearest_begin(&finding.nearest, function);
	for (size_t i = 0; i < n; i++) {
		count_tree(&finding, &trees[i]);
		samples += trees[i].samples;
	}
	g_autofree char *meant = vms_nearest_end(&finding.nearest);
	if (found->len == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "none of %" G_GUINT64_FORMAT " samples found %s itself executing%s",
			    samples, function,
			    *meant ? meant
				   : "; the functions that were are in a text report, below "
				     "\"Functions by self\"");
		return NULL;
	}
	for (guint i = 0; i < found->len; i++) {
		struct vms_annotation *annotation = g_ptr_array_index(found, i);
		g_array_sort(annotation->spots, compare_spots);
		find_space(annotation, symbolizer);
	}
	g_ptr_array_sort(found, compare_annotations);
	return g_steal_pointer(&found);
}

/* ---- instructions --------------------------------------------------------------------- */

bool vms_annotation_read_file(const struct vms_annotation *annotation, uint8_t *code)
{
	return annotation->binary && annotation->size <= VMS_ANNOTATION_LIMIT &&
	       vms_binary_read(annotation->binary, annotation->file_offset, code, annotation->size);
}

static const char *intern_text(struct vms_annotation *annotation, const char *text)
{
	if (!text)
		return NULL;
	g_autofree char *clean = g_strdup(text);
	vms_text_clean(clean);
	return vms_texts_keep(annotation->strings, clean);
}

/* Adds an instruction with the spots from `*next` up to its end. */
static void add_instruction(struct vms_annotation *annotation, uint64_t va, uint64_t end,
			    const char *text, guint *next)
{
	struct vms_location location = { 0 };
	struct vms_annotated_instruction instruction = { .va = va,
							 .text = intern_text(annotation, text) };
	while (*next < annotation->spots->len &&
	       g_array_index(annotation->spots, struct spot, *next).va < end)
		instruction.hits += g_array_index(annotation->spots, struct spot, (*next)++).hits;
	vms_symbolizer_locate(annotation->symbolizer, annotation->space, 0, va, &location);
	instruction.source = intern_text(annotation, location.source);
	instruction.line = location.line;
	g_array_append_val(annotation->instructions, instruction);
}

/* Lists addresses with hits from a spot on, without instructions. */
static void list_spots(struct vms_annotation *annotation, guint next)
{
	while (next < annotation->spots->len) {
		const uint64_t va = g_array_index(annotation->spots, struct spot, next).va;
		add_instruction(annotation, va, va + 1, NULL, &next);
	}
}

struct decoding {
	struct vms_annotation *annotation;
	uint64_t end; /* end of the function */
	guint next;   /* spot */
};

static bool decode_instruction(const struct vms_insn *insn, void *data)
{
	struct decoding *decoding = data;
	if (insn->va >= decoding->end)
		return false;
	add_instruction(decoding->annotation, insn->va, insn->va + insn->size, insn->text,
			&decoding->next);
	return true;
}

bool vms_annotation_decode(struct vms_annotation *annotation, const struct vms_arch *arch,
			   const struct vms_code_mode *mode, const uint8_t *code, size_t n,
			   GError **error)
{
	struct decoding decoding = { annotation, annotation->start + annotation->size, 0 };
	if (!vms_disassemble(arch, mode->bits, mode->code_base, annotation->start, code, n,
			     decode_instruction, &decoding, error))
		return false;
	list_spots(annotation, decoding.next);
	return true;
}

void vms_annotation_list_hits(struct vms_annotation *annotation)
{
	list_spots(annotation, 0);
}

/* ---- source lines ---------------------------------------------------------------------- */

/* Gets the address of the function in an open file, if that is the mapped one. */
static bool find_in_file(const struct vms_annotation *annotation, int fd, struct vms_budget *budget,
			 uint64_t *ret)
{
	struct vms_file_source source;
	struct vms_elf_image elf;
	const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0 || !vms_file_source_of_fd(own, &source))
		return false;
	source.budget = budget;
	const bool is_elf = vms_elf_image_read(&source, &elf, NULL);
	const bool found = is_elf && strcmp(elf.build_id, annotation->build_id) == 0 &&
			   vms_elf_image_code_address(&elf, annotation->file_offset, ret);
	if (is_elf)
		vms_elf_image_clear(&elf);
	vms_file_source_clear(&source);
	return found;
}

bool vms_annotation_add_lines(struct vms_annotation *annotation, int fd, const char *path,
			      struct vms_budget *budget)
{
	uint64_t address;
	bool added = false;
	if (!annotation->build_id || !find_in_file(annotation, fd, budget, &address)) {
		close(fd);
		return false;
	}
	g_autoptr(vms_symbol_file) file = vms_symbol_file_open_fd(fd, path, budget, NULL);
	for (guint i = 0; file && i < annotation->instructions->len; i++) {
		struct vms_annotated_instruction *instruction = &g_array_index(
			annotation->instructions, struct vms_annotated_instruction, i);
		const char *source = NULL;
		if (!vms_symbol_file_line(file, address + instruction->va - annotation->start,
					  &source, &instruction->line))
			continue;
		instruction->source = intern_text(annotation, source);
		added = true;
	}
	return added;
}
