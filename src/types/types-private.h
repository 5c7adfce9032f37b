/* SPDX-License-Identifier: MIT */
/*
 * How types are stored, and how the reader of a format adds them: vms_types_new, then parts and
 * types in their order, then vms_types_finish. A type may refer to any number. If there is no type
 * with that number, its kind is UNKNOWN.
 */
#pragma once

#include <vmscope/types.h>

/* The parts of all types are in one array. The struct vms_types owns the strings. */
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
 * Makes types whose numbers follow those of `base`, or NULL: a module's types follow its kernel's.
 * Takes a new reference to `base`, and to `strings`, which contains the names.
 */
struct vms_types *vms_types_new(struct vms_types *base, GBytes *strings);
/* Returns the number of the next type that is added. The first number without a base is 1. */
uint32_t vms_types_next_number(const struct vms_types *types);
/* Adds a type with the parts that were added since the last one. */
void vms_types_add(struct vms_types *types, const struct vms_stored_type *type);
void vms_types_add_part(struct vms_types *types, const struct vms_stored_part *part);
/* Adds the name of a function, and its prototype. */
void vms_types_add_function(struct vms_types *types, const char *name, uint32_t prototype);
/* Indexes the names. Must be called once, before the types are used. */
void vms_types_finish(struct vms_types *types);
