/* SPDX-License-Identifier: MIT */
#include "base/nearest.h"
#include "base/search.h"
#include "types/types-private.h"
#include <string.h>

#define CHAIN_LIMIT   32	 /* typedefs and qualifiers before a type; nested arrays */
#define NESTING_LIMIT 16	 /* nested anonymous structures */
#define MEMBERS_LIMIT (1u << 16) /* members that one search may visit */
#define NAME_LIMIT    512	 /* bytes; longer names are not found */

/* The name spaces of C: names in different ones do not conflict. */
enum name_space { SPACE_STRUCT, SPACE_UNION, SPACE_ENUM, SPACE_PLAIN, SPACE_FUNCTION, N_SPACES };

struct indexed_name {
	const char *name;
	enum name_space space;
	uint32_t number; /* of the type */
};

struct vms_types {
	gatomicrefcount refs;
	struct vms_types *base; /* or NULL */
	GBytes *strings;
	uint32_t first; /* number of the first type */
	GArray *types;	/* struct vms_stored_type */
	GArray *parts;	/* struct vms_stored_part */
	GArray *names; /* struct indexed_name, sorted; not hashed, as a guest could cause collisions
			*/
	uint32_t n_parts_of_types; /* parts that were assigned to a type */
};

/* ---- adding types -------------------------------------------------------------------- */

struct vms_types *vms_types_new(struct vms_types *base, GBytes *strings)
{
	struct vms_types *types = g_new0(struct vms_types, 1);
	g_atomic_ref_count_init(&types->refs);
	types->base = base ? vms_types_ref(base) : NULL;
	types->strings = g_bytes_ref(strings);
	types->first = base ? vms_types_next_number(base) : 1;
	types->types = g_array_new(FALSE, FALSE, sizeof(struct vms_stored_type));
	types->parts = g_array_new(FALSE, FALSE, sizeof(struct vms_stored_part));
	types->names = g_array_new(FALSE, FALSE, sizeof(struct indexed_name));
	return types;
}

struct vms_types *vms_types_ref(struct vms_types *types)
{
	g_atomic_ref_count_inc(&types->refs);
	return types;
}

void vms_types_unref(struct vms_types *types)
{
	if (!types || !g_atomic_ref_count_dec(&types->refs))
		return;
	vms_types_unref(types->base);
	g_bytes_unref(types->strings);
	g_array_unref(types->types);
	g_array_unref(types->parts);
	g_array_unref(types->names);
	g_free(types);
}

uint32_t vms_types_next_number(const struct vms_types *types)
{
	return types->first + types->types->len;
}

static void add_name(struct vms_types *types, const char *name, enum name_space space,
		     uint32_t number)
{
	const struct indexed_name indexed = { name, space, number };
	if (*name && strnlen(name, NAME_LIMIT) < NAME_LIMIT)
		g_array_append_val(types->names, indexed);
}

void vms_types_add(struct vms_types *types, const struct vms_stored_type *type)
{
	static const struct {
		enum vms_type_kind kind;
		enum name_space space;
	} spaces[] = {
		{ VMS_TYPE_INTEGER, SPACE_PLAIN }, { VMS_TYPE_BOOL, SPACE_PLAIN },
		{ VMS_TYPE_CHAR, SPACE_PLAIN },	   { VMS_TYPE_FLOAT, SPACE_PLAIN },
		{ VMS_TYPE_TYPEDEF, SPACE_PLAIN }, { VMS_TYPE_STRUCT, SPACE_STRUCT },
		{ VMS_TYPE_UNION, SPACE_UNION },   { VMS_TYPE_ENUM, SPACE_ENUM },
	};
	struct vms_stored_type stored = *type;
	for (size_t i = 0; i < G_N_ELEMENTS(spaces); i++)
		if (spaces[i].kind == type->kind)
			add_name(types, type->name, spaces[i].space, vms_types_next_number(types));
	stored.first_part = types->n_parts_of_types;
	stored.n_parts = types->parts->len - types->n_parts_of_types;
	types->n_parts_of_types = types->parts->len;
	g_array_append_val(types->types, stored);
}

void vms_types_add_part(struct vms_types *types, const struct vms_stored_part *part)
{
	g_array_append_vals(types->parts, part, 1);
}

void vms_types_add_function(struct vms_types *types, const char *name, uint32_t prototype)
{
	add_name(types, name, SPACE_FUNCTION, prototype);
}

static int compare_names(const void *a, const void *b)
{
	const struct indexed_name *x = a, *y = b;
	const int order = strcmp(x->name, y->name);
	if (order)
		return order;
	if (x->space != y->space)
		return x->space < y->space ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

void vms_types_finish(struct vms_types *types)
{
	g_array_sort(types->names, compare_names);
}

/* ---- one type ---------------------------------------------------------------------- */

/* Returns the stored type, and sets the struct vms_types that has its parts. NULL if unknown. */
static const struct vms_stored_type *get_stored(struct vms_type type,
						const struct vms_types **owner)
{
	const struct vms_types *types = type.types;
	while (types->base && type.number < types->first)
		types = types->base;
	*owner = types;
	if (type.number < types->first || type.number - types->first >= types->types->len)
		return NULL;
	return &g_array_index(types->types, struct vms_stored_type, type.number - types->first);
}

static bool is_alias(enum vms_type_kind kind)
{
	return kind == VMS_TYPE_TYPEDEF || kind == VMS_TYPE_CONST || kind == VMS_TYPE_OTHER;
}

struct vms_type vms_type_resolve(struct vms_type type)
{
	const struct vms_types *owner;
	const struct vms_stored_type *stored = get_stored(type, &owner);
	for (unsigned i = 0; stored && is_alias(stored->kind); i++) {
		type.number = i < CHAIN_LIMIT ? stored->target : UINT32_MAX;
		stored = get_stored(type, &owner);
	}
	return type;
}

/* Returns the size of a type in bytes, or 0 if it is not known. */
static uint64_t compute_size(struct vms_type type)
{
	uint64_t count = 1, size = 0;
	for (unsigned i = 0; i < CHAIN_LIMIT; i++) {
		const struct vms_types *owner;
		type = vms_type_resolve(type);
		const struct vms_stored_type *stored = get_stored(type, &owner);
		if (!stored)
			return 0;
		if (stored->kind != VMS_TYPE_ARRAY)
			return __builtin_mul_overflow(count, stored->size, &size) ? 0 : size;
		if (__builtin_mul_overflow(count, stored->size, &count))
			return 0;
		type.number = stored->target;
	}
	return 0;
}

void vms_type_get_info(struct vms_type type, struct vms_type_info *ret)
{
	const struct vms_types *owner;
	const struct vms_stored_type *stored = get_stored(type, &owner);
	*ret = (struct vms_type_info) { .kind = type.number ? VMS_TYPE_UNKNOWN : VMS_TYPE_VOID,
					.name = "",
					.target = { type.types, 0 } };
	if (!stored)
		return;
	ret->kind = stored->kind;
	ret->name = stored->name;
	ret->is_signed = stored->is_signed;
	ret->target.number = stored->target;
	ret->n_elements = stored->kind == VMS_TYPE_ARRAY ? (uint32_t)stored->size : 0;
	ret->size = compute_size(type);
	ret->n_parts = stored->n_parts;
}

bool vms_type_get_part(struct vms_type type, uint32_t index, struct vms_type_part *ret)
{
	const struct vms_types *owner;
	const struct vms_stored_type *stored = get_stored(type, &owner);
	if (!stored || index >= stored->n_parts)
		return false;
	const struct vms_stored_part *part =
		&g_array_index(owner->parts, struct vms_stored_part, stored->first_part + index);
	*ret = (struct vms_type_part) { .name = part->name,
					.type = { type.types, part->type },
					.bit_offset = part->bit_offset,
					.bits = part->bits,
					.value = part->value };
	return true;
}

bool vms_type_is_text(struct vms_type type)
{
	struct vms_type_info info;
	type = vms_type_resolve(type);
	vms_type_get_info(type, &info);
	const bool is_pointer = info.kind == VMS_TYPE_POINTER;
	if (!is_pointer && info.kind != VMS_TYPE_ARRAY)
		return false;
	type = info.target;
	vms_type_get_info(type, &info);
	if (is_pointer && info.kind != VMS_TYPE_CONST)
		return false;
	if (info.kind == VMS_TYPE_CONST) {
		type = info.target;
		vms_type_get_info(type, &info);
	}
	/* Names of files are unsigned char. Types with another name, such as u8, are numbers. */
	return info.kind == VMS_TYPE_CHAR ||
	       (info.kind == VMS_TYPE_INTEGER && info.size == 1 && !info.is_signed);
}

/* ---- names of types ------------------------------------------------------------------ */

/* Appends the name of a type that is not derived from another one. */
static void append_own_name(const struct vms_type_info *info, GString *out)
{
	const char *word = info->kind == VMS_TYPE_STRUCT  ? "struct "
			   : info->kind == VMS_TYPE_UNION ? "union "
			   : info->kind == VMS_TYPE_ENUM  ? "enum "
							  : "";
	const char *name = info->kind == VMS_TYPE_VOID	    ? "void"
			   : *info->name		    ? info->name
			   : info->kind == VMS_TYPE_UNKNOWN ? "?"
							    : "{…}";
	g_string_append_printf(out, "%s%s", word, name);
}

char *vms_type_name(struct vms_type type)
{
	g_autoptr(GString) name = g_string_new(NULL);
	g_autoptr(GString) declarator = g_string_new(NULL);
	struct vms_type_info info, target;
	for (unsigned i = 0; i < CHAIN_LIMIT; i++) {
		vms_type_get_info(type, &info);
		vms_type_get_info(info.target, &target);
		if (info.kind == VMS_TYPE_POINTER) {
			const bool inner =
				target.kind == VMS_TYPE_ARRAY || target.kind == VMS_TYPE_FUNCTION;
			g_string_prepend(declarator, inner ? "(*" : "*");
			g_string_append(declarator, inner ? ")" : "");
		} else if (info.kind == VMS_TYPE_ARRAY) {
			g_string_append_printf(declarator, "[%u]", info.n_elements);
		} else if (info.kind == VMS_TYPE_FUNCTION) {
			g_string_append(declarator, "()");
		} else if (info.kind == VMS_TYPE_CONST && target.kind == VMS_TYPE_POINTER) {
			g_string_prepend(declarator, " const");
		} else if (info.kind == VMS_TYPE_CONST) {
			g_string_append(name, "const ");
		} else if (info.kind != VMS_TYPE_OTHER) {
			break;
		}
		type = info.target;
	}
	append_own_name(&info, name);
	if (declarator->len && *declarator->str != '[')
		g_string_append_c(name, ' ');
	return g_strconcat(name->str, declarator->str, NULL);
}

/* ---- finding by name ------------------------------------------------------------------- */

static const struct indexed_name *get_name(const struct vms_types *types, size_t index)
{
	return &g_array_index(types->names, struct indexed_name, index);
}

/* Finds the types with a name. Returns the first of *n neighbours, or NULL. */
static const struct indexed_name *find_name(const struct vms_types *types, const char *name,
					    enum name_space space, size_t *n)
{
	for (; types; types = types->base) {
		const struct indexed_name wanted = { name, space, 0 };
		const size_t all = types->names->len;
		const size_t from =
			VMS_SEARCH(all, i, compare_names(get_name(types, i), &wanted) < 0);
		size_t end = from;
		while (end < all && get_name(types, end)->space == space &&
		       strcmp(get_name(types, end)->name, name) == 0)
			end++;
		*n = end - from;
		if (*n)
			return get_name(types, from);
	}
	return NULL;
}

/* Returns the text with similar names for a message about an unknown name. Newly allocated. */
static char *find_nearest(const struct vms_types *types, const char *name, enum name_space space)
{
	struct vms_nearest nearest;
	vms_nearest_begin(&nearest, name);
	for (; types; types = types->base)
		for (guint i = 0; i < types->names->len; i++)
			if (get_name(types, i)->space == space)
				vms_nearest_add(&nearest, get_name(types, i)->name);
	return vms_nearest_end(&nearest);
}

/* Returns DWARF's name of an integer type, whose words C allows in any order, or NULL. */
static const char *name_integer(const char *name)
{
	enum { UNSIGNED, SIGNED, SHORT, CHAR, LONG, INT, N_WORDS };
	static const char *const words[N_WORDS] = {
		[UNSIGNED] = "unsigned", [SIGNED] = "signed", [SHORT] = "short",
		[CHAR] = "char",	 [LONG] = "long",     [INT] = "int",
	};
	static const char *const names[][2] = { { "short int", "short unsigned int" },
						{ "int", "unsigned int" },
						{ "long int", "long unsigned int" },
						{ "long long int", "long long unsigned int" } };
	g_auto(GStrv) parts = g_strsplit(name, " ", N_WORDS);
	unsigned n[N_WORDS] = { 0 };
	for (unsigned i = 0; parts[i]; i++) {
		unsigned word = 0;
		while (word < N_WORDS && strcmp(words[word], parts[i]) != 0)
			word++;
		if (word == N_WORDS)
			return NULL;
		n[word]++;
	}
	if (n[CHAR])
		return n[UNSIGNED] ? "unsigned char" : n[SIGNED] ? "signed char" : "char";
	return names[n[SHORT] ? 0 : 1 + MIN(n[LONG], 2)][n[UNSIGNED] > 0];
}

bool vms_types_find(const struct vms_types *types, const char *name, struct vms_type *ret,
		    GError **error)
{
	static const struct {
		const char *word;
		enum name_space space;
	} words[] = { { "struct ", SPACE_STRUCT },
		      { "union ", SPACE_UNION },
		      { "enum ", SPACE_ENUM },
		      { "", SPACE_PLAIN } };
	unsigned i = 0;
	size_t n;
	while (!g_str_has_prefix(name, words[i].word))
		i++;
	const char *own = name + strlen(words[i].word);
	*ret = (struct vms_type) { types, 0 };
	if (strcmp(name, "void") == 0)
		return true;
	const struct indexed_name *found = find_name(types, own, words[i].space, &n);
	const char *integer = words[i].space == SPACE_PLAIN ? name_integer(own) : NULL;
	if (!found && integer)
		found = find_name(types, integer, SPACE_PLAIN, &n);
	ret->number = found ? found->number : 0;
	if (found || !error)
		return found;
	g_autofree char *nearest = find_nearest(types, own, words[i].space);
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "there is no type \"%s\"%s", name,
		    nearest);
	return false;
}

static bool is_same_prototype(struct vms_type a, struct vms_type b)
{
	struct vms_type_info x, y;
	struct vms_type_part p, q;
	vms_type_get_info(a, &x);
	vms_type_get_info(b, &y);
	if (x.target.number != y.target.number || x.n_parts != y.n_parts)
		return false;
	for (uint32_t i = 0; vms_type_get_part(a, i, &p) && vms_type_get_part(b, i, &q); i++)
		if (p.type.number != q.type.number || strcmp(p.name, q.name) != 0)
			return false;
	return true;
}

bool vms_types_find_function(const struct vms_types *types, const char *name, struct vms_type *ret,
			     GError **error)
{
	size_t n;
	const struct indexed_name *found = find_name(types, name, SPACE_FUNCTION, &n);
	if (!found) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "the guest's types have no function \"%s\", so its arguments are not "
			    "known",
			    name);
		return false;
	}
	*ret = (struct vms_type) { types, found->number };
	for (size_t i = 1; i < n; i++) {
		if (is_same_prototype(*ret, (struct vms_type) { types, found[i].number }))
			continue;
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "the guest has several functions \"%s\" with different arguments",
			    name);
		return false;
	}
	return true;
}

bool vms_types_find_enumerator(const struct vms_types *types, const char *name, int64_t *ret)
{
	for (; types; types = types->base) {
		struct vms_type type = { types, types->first };
		for (; type.number < vms_types_next_number(types); type.number++) {
			const struct vms_types *owner;
			struct vms_type_part part;
			const struct vms_stored_type *stored = get_stored(type, &owner);
			if (!stored || stored->kind != VMS_TYPE_ENUM)
				continue;
			for (uint32_t i = 0; vms_type_get_part(type, i, &part); i++) {
				*ret = part.value;
				if (strcmp(part.name, name) == 0)
					return true;
			}
		}
	}
	return false;
}

/* ---- members ------------------------------------------------------------------------- */

static bool is_structure(struct vms_type type)
{
	struct vms_type_info info;
	vms_type_get_info(type, &info);
	return info.kind == VMS_TYPE_STRUCT || info.kind == VMS_TYPE_UNION;
}

struct search {
	const char *name;
	unsigned budget;	     /* members that may still be visited */
	struct vms_nearest *nearest; /* gets the names of all members; or NULL */
};

/* Searches a member in a structure and in its anonymous structures. */
static bool find_member(struct search *search, struct vms_type type, unsigned nesting,
			struct vms_type_part *ret)
{
	struct vms_type_part part;
	for (uint32_t i = 0; vms_type_get_part(type, i, &part) && search->budget; i++) {
		const struct vms_type inner = vms_type_resolve(part.type);
		search->budget--;
		if (search->nearest && *part.name)
			vms_nearest_add(search->nearest, part.name);
		if (!*part.name && nesting < NESTING_LIMIT && is_structure(inner)) {
			if (!find_member(search, inner, nesting + 1, ret))
				continue;
			ret->bit_offset += part.bit_offset;
			return true;
		}
		*ret = part;
		if (strcmp(part.name, search->name) == 0 && !search->nearest)
			return true;
	}
	return false;
}

bool vms_type_find_member(struct vms_type type, const char *name, struct vms_type_part *ret,
			  GError **error)
{
	const struct vms_type structure = vms_type_resolve(type);
	struct search search = { .name = name, .budget = MEMBERS_LIMIT };
	g_autofree char *what = vms_type_name(type);
	if (!is_structure(structure)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "\"%s\" is not a structure, so it has no members", what);
		return false;
	}
	if (*name && find_member(&search, structure, 0, ret))
		return true;
	if (!error)
		return false;
	struct vms_nearest nearest;
	vms_nearest_begin(&nearest, name);
	search = (struct search) { .name = name, .budget = MEMBERS_LIMIT, .nearest = &nearest };
	find_member(&search, structure, 0, ret);
	g_autofree char *names = vms_nearest_end(&nearest);
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "\"%s\" has no member \"%s\"%s", what,
		    name, names);
	return false;
}

/* ---- arguments ------------------------------------------------------------------------- */

/* True if an argument is in one register, like numbers and structures of up to 8 bytes. */
static bool takes_one_register(struct vms_type type)
{
	struct vms_type_info info;
	vms_type_get_info(vms_type_resolve(type), &info);
	return info.size > 0 && info.size <= sizeof(uint64_t) && info.kind != VMS_TYPE_FLOAT;
}

bool vms_type_argument(struct vms_type function, uint32_t index, unsigned n_registers,
		       unsigned *reg, GError **error)
{
	struct vms_type_part part;
	if (!vms_type_get_part(function, index, &part)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "the function has no argument %u", index);
		return false;
	}
	for (uint32_t i = 0; i <= index; i++) {
		struct vms_type_part before;
		vms_type_get_part(function, i, &before);
		if (takes_one_register(before.type))
			continue;
		g_autofree char *name = vms_type_name(before.type);
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot find the argument \"%s\": \"%s %s\" does not fit into one "
			    "register",
			    part.name, name, before.name);
		return false;
	}
	if (index >= n_registers) {
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			"the argument \"%s\" is on the stack: only the first %u arguments are in "
			"registers",
			part.name, n_registers);
		return false;
	}
	*reg = index;
	return true;
}
