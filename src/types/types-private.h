/* SPDX-License-Identifier: MIT */
/*
 * How types are stored, and how a reader of a format fills them in: vms_types_new, then types and
 * parts in their order, then vms_types_finish. Whatever a reader adds may refer to any number:
 * where there is no such type, its kind is UNKNOWN.
 */
#pragma once

#include <vmscope/types.h>

/* Parts of types lie one after another; the strings belong to the types. */
struct vms_stored_type {
	const char *name;
	uint64_t size; /* bytes, or elements of an array */
	uint32_t target, first_part, n_parts;
	uint8_t kind; /* enum vms_type_kind */
	bool is_signed;
};

struct vms_stored_part {
	const char *name;
	uint32_t type;
	uint32_t bit_offset, bits; /* of a member */
	int64_t value;		   /* of an enumerator */
};

/*
 * Makes types that go on after those of `base`, which may be NULL: a module's after its kernel's.
 * Takes a new reference to the base, and to `strings`, where names are.
 */
struct vms_types *vms_types_new(struct vms_types *base, GBytes *strings);
/* The number that the next type gets. The first one of types without a base is 1. */
uint32_t vms_types_next_number(const struct vms_types *types);
/* Adds a type with the parts that were added since the last one. */
void vms_types_add(struct vms_types *types, const struct vms_stored_type *type);
void vms_types_add_part(struct vms_types *types, const struct vms_stored_part *part);
/* Names a prototype: a function that is called so has it. */
void vms_types_add_function(struct vms_types *types, const char *name, uint32_t prototype);
/* Indexes the names. Must be called once, before the types are used. */
void vms_types_finish(struct vms_types *types);
