/* SPDX-License-Identifier: MIT */
/*
 * A BTF blob is a header, a section of types and a section of strings. Types have numbers: their
 * order in the section, from 1 on. 0 is void. Types refer to each other by number. The index tells
 * where each type begins, and the number of each named structure, union and typedef.
 */
#include "base/search.h"
#include "guest/linux/btf-private.h"

#include <stdlib.h>

#define BTF_MAGIC     0xeb9f
#define HEADER_SIZE   24
#define TYPE_SIZE     12 /* of struct btf_type, without what a kind adds */
#define MEMBER_SIZE   12 /* struct btf_member */
#define BLOB_LIMIT    (64u << 20)
#define CHAIN_LIMIT   32	 /* typedefs, qualifiers and arrays before a type */
#define NESTING_LIMIT 16	 /* anonymous structures in one another */
#define PATH_LIMIT    8		 /* names in a member's path */
#define NAME_LIMIT    128	 /* bytes of such a name */
#define MEMBERS_LIMIT (1u << 16) /* members that one search may visit */
#define POINTER_SIZE  8

/* Bytes that follow struct btf_type: some once, some for each of its `vlen` parts. */
static const struct {
	uint8_t once, each;
} kind_size[KIND_LIMIT] = {
	[KIND_INT] = { .once = 4 },
	[KIND_ARRAY] = { .once = 12 },
	[KIND_STRUCT] = { .each = MEMBER_SIZE },
	[KIND_UNION] = { .each = MEMBER_SIZE },
	[KIND_ENUM] = { .each = 8 },
	[KIND_FUNC_PROTO] = { .each = 8 },
	[KIND_VAR] = { .once = 4 },
	[KIND_DATASEC] = { .each = 12 },
	[KIND_DECL_TAG] = { .once = 4 },
	[KIND_ENUM64] = { .each = 12 },
};

struct vms_btf {
	uint8_t *blob;
	struct vms_bytes types, strings; /* sections of the blob; strings end with NUL */
	GArray *offsets;		 /* uint32_t: where in `types` a type begins, by number */
	GArray *names;			 /* struct btf_name, sorted */
};

/*
 * The name of a structure, union or typedef. The names are sorted: in a hash table, a guest could
 * choose names that collide.
 */
struct btf_name {
	const char *name;
	uint32_t number;
	bool is_typedef;
};

/* ---- decoding --------------------------------------------------------- */

static const char *get_string(const struct vms_btf *btf, uint32_t offset)
{
	return offset < btf->strings.size ? (const char *)btf->strings.data + offset : "";
}

/* Decodes the type that begins at `offset`. `*next` is where the next one begins. */
static bool decode_type(const struct vms_btf *btf, uint64_t offset, struct btf_type *ret,
			uint64_t *next)
{
	uint32_t name, info;
	if (!vms_bytes_u32(btf->types, offset, &name) ||
	    !vms_bytes_u32(btf->types, offset + 4, &info) ||
	    !vms_bytes_u32(btf->types, offset + 8, &ret->size))
		return false;
	ret->name = get_string(btf, name);
	ret->name_at = name;
	ret->kind = info >> 24 & 31;
	ret->vlen = info & 0xffff;
	ret->kflag = info >> 31;
	ret->parts = (uint32_t)offset + TYPE_SIZE;
	if (ret->kind < KIND_INT || ret->kind >= KIND_LIMIT)
		return false;
	uint64_t size = kind_size[ret->kind].once + (uint64_t)kind_size[ret->kind].each * ret->vlen;
	*next = ret->parts + size;
	return vms_bytes_has(btf->types, ret->parts, size);
}

static bool get_type(const struct vms_btf *btf, uint32_t number, struct btf_type *ret)
{
	uint64_t next;
	return number > 0 && number < btf->offsets->len &&
	       decode_type(btf, g_array_index(btf->offsets, uint32_t, number), ret, &next);
}

static bool is_structure(const struct btf_type *type)
{
	return type->kind == KIND_STRUCT || type->kind == KIND_UNION;
}

static bool is_alias(const struct btf_type *type)
{
	return type->kind == KIND_TYPEDEF || type->kind == KIND_VOLATILE ||
	       type->kind == KIND_CONST || type->kind == KIND_RESTRICT ||
	       type->kind == KIND_TYPE_TAG;
}

/* Finds the type behind typedefs and qualifiers. */
static bool resolve_type(const struct vms_btf *btf, uint32_t number, struct btf_type *ret)
{
	for (unsigned i = 0; i < CHAIN_LIMIT; i++) {
		if (!get_type(btf, number, ret))
			return false;
		if (!is_alias(ret))
			return true;
		number = ret->size;
	}
	return false;
}

/* Returns how many bytes a variable of a type takes; 0 if the type does not tell. */
static uint64_t compute_size(const struct vms_btf *btf, uint32_t number)
{
	uint64_t count = 1;
	struct btf_type type;
	for (unsigned i = 0; i < CHAIN_LIMIT && resolve_type(btf, number, &type); i++) {
		if (type.kind == KIND_ARRAY) {
			uint32_t n;
			if (!vms_bytes_u32(btf->types, type.parts, &number) ||
			    !vms_bytes_u32(btf->types, type.parts + 8, &n) ||
			    __builtin_mul_overflow(count, (uint64_t)n, &count))
				return 0;
			continue;
		}
		bool sized = is_structure(&type) || type.kind == KIND_INT ||
			     type.kind == KIND_ENUM || type.kind == KIND_ENUM64 ||
			     type.kind == KIND_FLOAT;
		uint64_t size = type.kind == KIND_PTR ? POINTER_SIZE : sized ? type.size : 0;
		return __builtin_mul_overflow(count, size, &size) ? 0 : size;
	}
	return 0;
}

/* ---- members ---------------------------------------------------------- */

/* The place of a member in its structure, and the number of its type. */
struct found_member {
	uint64_t bit_offset;
	unsigned bits; /* of a bit field, else 0 */
	uint32_t type;
};

/*
 * Looks for a member in a structure and in the anonymous structures in it. `*budget` is how many
 * members it may still visit.
 */
static bool find_member(const struct vms_btf *btf, const struct btf_type *type, const char *name,
			unsigned nesting, unsigned *budget, struct found_member *ret)
{
	for (unsigned i = 0; i < type->vlen; i++) {
		uint64_t part = type->parts + (uint64_t)i * MEMBER_SIZE;
		uint32_t name_offset, offset;
		if (!*budget || !vms_bytes_u32(btf->types, part, &name_offset) ||
		    !vms_bytes_u32(btf->types, part + 4, &ret->type) ||
		    !vms_bytes_u32(btf->types, part + 8, &offset))
			return false;
		--*budget;
		uint32_t number = ret->type;
		uint64_t bit_offset = type->kflag ? offset & 0xffffff : offset;
		const char *member = get_string(btf, name_offset);
		struct btf_type inner;
		if (!*member && nesting < NESTING_LIMIT && resolve_type(btf, number, &inner) &&
		    is_structure(&inner)) {
			if (find_member(btf, &inner, name, nesting + 1, budget, ret)) {
				ret->bit_offset += bit_offset;
				return true;
			}
		} else if (strcmp(member, name) == 0) {
			*ret = (struct found_member) {
				.bit_offset = bit_offset,
				.bits = type->kflag ? offset >> 24 : 0,
				.type = number,
			};
			return true;
		}
	}
	return false;
}

static bool find_structure(const struct vms_btf *btf, const char *name, struct btf_type *ret)
{
	const struct btf_name *names = (const struct btf_name *)(void *)btf->names->data;
	const size_t n = btf->names->len;
	const size_t index = VMS_SEARCH(n, i, strcmp(names[i].name, name) < 0);
	if (index == n)
		return false;
	const struct btf_name *found = &names[index];
	return strcmp(found->name, name) == 0 && resolve_type(btf, found->number, ret) &&
	       is_structure(ret);
}

/* Copies the first name of a path. Returns the rest, or NULL if the name is too long. */
static const char *split_name(const char *path, char name[NAME_LIMIT])
{
	size_t size = strcspn(path, ".");
	if (size >= NAME_LIMIT)
		return NULL;
	memcpy(name, path, size);
	name[size] = 0;
	return path[size] ? path + size + 1 : path + size;
}

bool vms_btf_member(const struct vms_btf *btf, const char *type_name, const char *path,
		    struct vms_btf_member *ret)
{
	struct btf_type type;
	if (!find_structure(btf, type_name, &type))
		return false;
	uint64_t bit_offset = 0;
	unsigned budget = MEMBERS_LIMIT;
	for (unsigned i = 0; i < PATH_LIMIT; i++) {
		char name[NAME_LIMIT];
		struct found_member member;
		path = split_name(path, name);
		if (!path || !find_member(btf, &type, name, 0, &budget, &member))
			return false;
		bit_offset += member.bit_offset;
		if (!*path) {
			*ret = (struct vms_btf_member) {
				.offset = bit_offset / 8,
				.bit_offset = bit_offset % 8,
				.bits = member.bits,
				.size = compute_size(btf, member.type),
				.is_there = true,
			};
			return true;
		}
		if (!resolve_type(btf, member.type, &type) || !is_structure(&type))
			return false;
	}
	return false;
}

bool vms_btf_size(const struct vms_btf *btf, const char *type_name, uint64_t *ret)
{
	struct btf_type type;
	if (!find_structure(btf, type_name, &type))
		return false;
	*ret = type.size;
	return true;
}

bool vms_btf_enumerator(const struct vms_btf *btf, const char *name, int64_t *ret)
{
	struct btf_type type;
	for (uint32_t number = 1; get_type(btf, number, &type); number++) {
		if (type.kind != KIND_ENUM && type.kind != KIND_ENUM64)
			continue;
		for (unsigned i = 0; i < type.vlen; i++) {
			uint64_t part = type.parts + (uint64_t)i * kind_size[type.kind].each;
			uint32_t name_offset, low, high;
			if (!vms_bytes_u32(btf->types, part, &name_offset) ||
			    !vms_bytes_u32(btf->types, part + 4, &low) ||
			    strcmp(get_string(btf, name_offset), name) != 0)
				continue;
			if (type.kind == KIND_ENUM)
				*ret = type.kflag ? (int64_t)(int32_t)low : (int64_t)low;
			else if (vms_bytes_u32(btf->types, part + 8, &high))
				*ret = (int64_t)((uint64_t)high << 32 | low);
			return true;
		}
	}
	return false;
}

/* ---- for btf_types.c ---------------------------------------------------- */

bool vms_btf_get_type(const struct vms_btf *btf, uint32_t number, struct btf_type *ret)
{
	return get_type(btf, number, ret);
}

struct vms_bytes vms_btf_type_section(const struct vms_btf *btf)
{
	return btf->types;
}

struct vms_bytes vms_btf_string_section(const struct vms_btf *btf)
{
	return btf->strings;
}

/* ---- variables -------------------------------------------------------- */

static bool find_variable(const struct vms_btf *btf, const struct btf_type *section,
			  const char *name, uint64_t *ret)
{
	for (unsigned i = 0; i < section->vlen; i++) {
		uint64_t part = section->parts + (uint64_t)i * kind_size[KIND_DATASEC].each;
		uint32_t number, offset;
		struct btf_type variable;
		if (!vms_bytes_u32(btf->types, part, &number) ||
		    !vms_bytes_u32(btf->types, part + 4, &offset) ||
		    !get_type(btf, number, &variable) || variable.kind != KIND_VAR ||
		    strcmp(variable.name, name) != 0)
			continue;
		*ret = offset;
		return true;
	}
	return false;
}

bool vms_btf_percpu(const struct vms_btf *btf, const char *name, uint64_t *ret)
{
	struct btf_type type;
	for (uint32_t number = 1; get_type(btf, number, &type); number++)
		if (type.kind == KIND_DATASEC && strcmp(type.name, ".data..percpu") == 0 &&
		    find_variable(btf, &type, name, ret))
			return true;
	return false;
}

/* ---- checking and indexing -------------------------------------------- */

/* Returns false. */
static bool fail_malformed(GError **error, const char *why)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED, "BTF of the guest's kernel: %s", why);
	return false;
}

/* Finds the sections of types and of strings. */
static bool parse_header(struct vms_btf *btf, struct vms_bytes blob, GError **error)
{
	uint16_t magic;
	uint32_t header, types_at, types_size, strings_at, strings_size;
	if (!vms_bytes_u16(blob, 0, &magic) || !vms_bytes_u32(blob, 4, &header) ||
	    !vms_bytes_u32(blob, 8, &types_at) || !vms_bytes_u32(blob, 12, &types_size) ||
	    !vms_bytes_u32(blob, 16, &strings_at) || !vms_bytes_u32(blob, 20, &strings_size))
		return fail_malformed(error, "shorter than its header");
	if (magic != BTF_MAGIC)
		return fail_malformed(error, "does not begin with 0xeb9f");
	uint64_t types_begin = (uint64_t)header + types_at;
	uint64_t strings_begin = (uint64_t)header + strings_at;
	if (header < HEADER_SIZE || !vms_bytes_has(blob, types_begin, types_size) ||
	    !vms_bytes_has(blob, strings_begin, strings_size))
		return fail_malformed(error, "its sections lie outside of it");
	vms_bytes_slice(blob, types_begin, types_size, &btf->types);
	vms_bytes_slice(blob, strings_begin, strings_size, &btf->strings);
	if (!strings_size || btf->strings.data[strings_size - 1])
		return fail_malformed(error, "its last string does not end");
	return true;
}

/* Sorts by name, then structures before typedefs, then by number. */
static int compare_names(const void *a, const void *b)
{
	const struct btf_name *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	if (order)
		return order;
	if (x->is_typedef != y->is_typedef)
		return x->is_typedef ? 1 : -1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static void index_name(struct vms_btf *btf, uint32_t number, const struct btf_type *type)
{
	bool is_typedef = type->kind == KIND_TYPEDEF;
	if ((!is_structure(type) && !is_typedef) || !*type->name ||
	    strnlen(type->name, NAME_LIMIT) == NAME_LIMIT)
		return;
	struct btf_name name = { type->name, number, is_typedef };
	g_array_append_val(btf->names, name);
}

static bool index_types(struct vms_btf *btf, GError **error)
{
	uint32_t begin = 0;
	g_array_append_val(btf->offsets, begin); /* number 0 is void, which has no entry */
	for (uint64_t offset = 0, next; offset < btf->types.size; offset = next) {
		struct btf_type type;
		if (!decode_type(btf, offset, &type, &next))
			return fail_malformed(error, "a type of unknown kind, or cut off");
		begin = (uint32_t)offset;
		g_array_append_val(btf->offsets, begin);
		index_name(btf, btf->offsets->len - 1, &type);
	}
	g_array_sort(btf->names, compare_names);
	return true;
}

struct vms_btf *vms_btf_new(struct vms_bytes blob, GError **error)
{
	if (blob.size > BLOB_LIMIT) {
		fail_malformed(error, "larger than 64 MiB");
		return NULL;
	}
	struct vms_btf *btf = g_new0(struct vms_btf, 1);
	btf->blob = g_memdup2(blob.data, blob.size);
	btf->offsets = g_array_new(false, false, sizeof(uint32_t));
	btf->names = g_array_new(false, false, sizeof(struct btf_name));
	if (!parse_header(btf, (struct vms_bytes) { btf->blob, blob.size, blob.budget }, error) ||
	    !index_types(btf, error)) {
		vms_btf_free(btf);
		return NULL;
	}
	/* Threads that look up types do not share a budget; each lookup has a limit. */
	btf->types.budget = btf->strings.budget = NULL;
	return btf;
}

void vms_btf_free(struct vms_btf *btf)
{
	if (!btf)
		return;
	g_array_unref(btf->names);
	g_array_unref(btf->offsets);
	g_free(btf->blob);
	g_free(btf);
}
