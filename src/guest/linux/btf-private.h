/* SPDX-License-Identifier: MIT */
/* The types of a BTF blob one by one, for btf_types.c. */
#pragma once

#include "guest/linux/btf.h"

enum btf_kind {
	KIND_INT = 1,
	KIND_PTR,
	KIND_ARRAY,
	KIND_STRUCT,
	KIND_UNION,
	KIND_ENUM,
	KIND_FWD,
	KIND_TYPEDEF,
	KIND_VOLATILE,
	KIND_CONST,
	KIND_RESTRICT,
	KIND_FUNC,
	KIND_FUNC_PROTO,
	KIND_VAR,
	KIND_DATASEC,
	KIND_FLOAT,
	KIND_DECL_TAG,
	KIND_TYPE_TAG,
	KIND_ENUM64,
	KIND_LIMIT,
};

struct btf_type {
	const char *name; /* "" for anonymous ones */
	uint32_t name_at; /* offset of the name; a module's go on after those of its kernel */
	enum btf_kind kind;
	unsigned vlen;	/* number of its parts */
	bool kflag;	/* of a structure: members may be bit fields */
	uint32_t size;	/* in bytes, or the number of the type that it refers to */
	uint32_t parts; /* offset of its parts in the section */
};

/* Gets a type of the blob itself, by its number there: from 1 on, also in a module's. */
bool vms_btf_get_type(const struct vms_btf *btf, uint32_t number, struct btf_type *ret);
/* The sections; owned by `btf`. The last byte of the strings is 0. */
struct vms_bytes vms_btf_type_section(const struct vms_btf *btf);
struct vms_bytes vms_btf_string_section(const struct vms_btf *btf);
