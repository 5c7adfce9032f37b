/* SPDX-License-Identifier: MIT */
#include "guest/linux/btf_types.h"
#include "guest/linux/btf-private.h"
#include "types/types-private.h"

#define POINTER_SIZE 8
#define PART_SIZE    12 /* of a member, and of an enumerator of 64 bits */
#define SMALL_SIZE   8	/* of a parameter, and of an enumerator of 32 bits */
#define INT_SIGNED   1
#define INT_BOOL     4

struct reading {
	const struct vms_btf *btf;
	struct vms_bytes section; /* its types */
	GBytes *strings;	  /* those of a base, then its own; cleaned */
	struct vms_types *types;
};

/* Copies strings, and makes what no name has, above all what controls a terminal, a "?". */
static void append_strings(GByteArray *all, const struct vms_btf *btf)
{
	const struct vms_bytes strings = vms_btf_string_section(btf);
	const guint begin = all->len;
	g_byte_array_append(all, strings.data, (guint)strings.size);
	for (guint i = begin; i < all->len; i++)
		if (all->data[i] && !g_ascii_isprint((char)all->data[i]))
			all->data[i] = '?';
}

static const char *get_name(const struct reading *reading, uint32_t at)
{
	gsize size;
	const char *strings = g_bytes_get_data(reading->strings, &size);
	return at < size ? strings + at : "";
}

/* ---- parts --------------------------------------------------------------------------- */

static void read_members(const struct reading *reading, const struct btf_type *type)
{
	for (unsigned i = 0; i < type->vlen; i++) {
		const uint64_t at = type->parts + (uint64_t)i * PART_SIZE;
		uint32_t name = 0, number = 0, offset = 0;
		vms_bytes_u32(reading->section, at, &name);
		vms_bytes_u32(reading->section, at + 4, &number);
		vms_bytes_u32(reading->section, at + 8, &offset);
		const struct vms_stored_part part = {
			.name = get_name(reading, name),
			.type = number,
			.bit_offset = type->kflag ? offset & 0xffffff : offset,
			.bits = type->kflag ? offset >> 24 : 0,
		};
		vms_types_add_part(reading->types, &part);
	}
}

static void read_parameters(const struct reading *reading, const struct btf_type *type)
{
	for (unsigned i = 0; i < type->vlen; i++) {
		const uint64_t at = type->parts + (uint64_t)i * SMALL_SIZE;
		uint32_t name = 0, number = 0;
		vms_bytes_u32(reading->section, at, &name);
		vms_bytes_u32(reading->section, at + 4, &number);
		const struct vms_stored_part part = { .name = get_name(reading, name),
						      .type = number };
		vms_types_add_part(reading->types, &part);
	}
}

static void read_enumerators(const struct reading *reading, const struct btf_type *type)
{
	const bool is_wide = type->kind == KIND_ENUM64;
	for (unsigned i = 0; i < type->vlen; i++) {
		const uint64_t at = type->parts + (uint64_t)i * (is_wide ? PART_SIZE : SMALL_SIZE);
		uint32_t name = 0, low = 0, high = 0;
		vms_bytes_u32(reading->section, at, &name);
		vms_bytes_u32(reading->section, at + 4, &low);
		if (is_wide)
			vms_bytes_u32(reading->section, at + 8, &high);
		else if (type->kflag && low >> 31)
			high = UINT32_MAX;
		const struct vms_stored_part part = { .name = get_name(reading, name),
						      .value = (int64_t)((uint64_t)high << 32 |
									 low) };
		vms_types_add_part(reading->types, &part);
	}
}

/* ---- types --------------------------------------------------------------------------- */

static void read_integer(const struct reading *reading, const struct btf_type *type,
			 struct vms_stored_type *ret)
{
	uint32_t word = 0;
	vms_bytes_u32(reading->section, type->parts, &word);
	const unsigned encoding = word >> 24 & 15;
	/* The encoding does not tell characters from numbers: pahole never says so, gcc of u8, too.
	 */
	const bool is_char = type->size == 1 && strcmp(ret->name, "char") == 0;
	ret->kind = encoding & INT_BOOL ? VMS_TYPE_BOOL
		    : is_char		? VMS_TYPE_CHAR
					: VMS_TYPE_INTEGER;
	ret->is_signed = encoding & INT_SIGNED;
}

static void read_array(const struct reading *reading, const struct btf_type *type,
		       struct vms_stored_type *ret)
{
	uint32_t n = 0;
	vms_bytes_u32(reading->section, type->parts, &ret->target);
	vms_bytes_u32(reading->section, type->parts + 8, &n);
	ret->kind = VMS_TYPE_ARRAY;
	ret->size = n;
}

static void read_reference(const struct btf_type *type, enum vms_type_kind kind,
			   struct vms_stored_type *ret)
{
	ret->kind = kind;
	ret->target = type->size;
	ret->size = kind == VMS_TYPE_POINTER ? POINTER_SIZE : 0;
}

/* Reads a type, and adds its parts. */
static void read_type(const struct reading *reading, const struct btf_type *type,
		      struct vms_stored_type *ret)
{
	*ret = (struct vms_stored_type) { .name = get_name(reading, type->name_at),
					  .kind = VMS_TYPE_UNKNOWN,
					  .size = type->size };
	switch (type->kind) {
	case KIND_INT: read_integer(reading, type, ret); break;
	case KIND_PTR: read_reference(type, VMS_TYPE_POINTER, ret); break;
	case KIND_ARRAY: read_array(reading, type, ret); break;
	case KIND_STRUCT:
	case KIND_UNION:
		ret->kind = type->kind == KIND_STRUCT ? VMS_TYPE_STRUCT : VMS_TYPE_UNION;
		read_members(reading, type);
		break;
	case KIND_ENUM:
	case KIND_ENUM64:
		ret->kind = VMS_TYPE_ENUM;
		ret->is_signed = type->kflag;
		read_enumerators(reading, type);
		break;
	case KIND_FLOAT: ret->kind = VMS_TYPE_FLOAT; break;
	case KIND_TYPEDEF: read_reference(type, VMS_TYPE_TYPEDEF, ret); break;
	case KIND_CONST: read_reference(type, VMS_TYPE_CONST, ret); break;
	case KIND_VOLATILE:
	case KIND_RESTRICT:
	case KIND_TYPE_TAG: read_reference(type, VMS_TYPE_OTHER, ret); break;
	case KIND_FUNC_PROTO:
		read_reference(type, VMS_TYPE_FUNCTION, ret);
		read_parameters(reading, type);
		break;
	case KIND_FUNC:
		vms_types_add_function(reading->types, ret->name, type->size);
		ret->size = 0;
		break;
	case KIND_FWD:
	case KIND_VAR:
	case KIND_DATASEC:
	case KIND_DECL_TAG:
	case KIND_LIMIT:
	default: ret->size = 0; break;
	}
}

struct vms_types *vms_btf_make_types(const struct vms_btf *btf, struct vms_types *base,
				     const struct vms_btf *base_btf)
{
	GByteArray *strings = g_byte_array_new();
	if (base_btf)
		append_strings(strings, base_btf);
	append_strings(strings, btf);
	g_autoptr(GBytes) all = g_byte_array_free_to_bytes(strings);
	const struct reading reading = { .btf = btf,
					 .section = vms_btf_type_section(btf),
					 .strings = all,
					 .types = vms_types_new(base, all) };
	struct btf_type type;
	for (uint32_t number = 1; vms_btf_get_type(btf, number, &type); number++) {
		struct vms_stored_type stored;
		read_type(&reading, &type, &stored);
		vms_types_add(reading.types, &stored);
	}
	vms_types_finish(reading.types);
	return reading.types;
}
