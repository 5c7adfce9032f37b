/* SPDX-License-Identifier: MIT */
/*
 * The types in the C source of a guest's code: structures and their members, prototypes of
 * functions, enumerations. vms_guest_types finds the types of a guest (guest.h). They never change:
 * any thread may use them, also when the guest is gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

typedef struct vms_types vms_types;

/* A type. It is valid as long as there is a reference to `types`. Number 0 is void. */
struct vms_type {
	const struct vms_types *types;
	uint32_t number;
};

enum vms_type_kind {
	VMS_TYPE_VOID,
	VMS_TYPE_INTEGER, /* BOOL and CHAR are integers too */
	VMS_TYPE_BOOL,
	VMS_TYPE_CHAR, /* an integer that is shown as a character */
	VMS_TYPE_FLOAT,
	VMS_TYPE_ENUM,
	VMS_TYPE_POINTER,
	VMS_TYPE_ARRAY,
	VMS_TYPE_STRUCT,
	VMS_TYPE_UNION,
	VMS_TYPE_FUNCTION, /* a prototype */
	VMS_TYPE_TYPEDEF,  /* another name of `target` */
	VMS_TYPE_CONST,	   /* `target` with const */
	VMS_TYPE_OTHER,	   /* `target` with another qualifier */
	VMS_TYPE_UNKNOWN,  /* only declared, or of an unknown kind */
};

struct vms_type_info {
	enum vms_type_kind kind;
	const char *name;	/* "" if it has none; owned by the types */
	bool is_signed;		/* of an integer or an enumeration */
	uint64_t size;		/* bytes of one; 0 if unknown, and of void and functions */
	uint32_t n_elements;	/* of an array */
	struct vms_type target; /* target of a pointer, element of an array, type of an alias,
				   result of a function */
	uint32_t n_parts;	/* members, parameters or enumerators */
};

/* A member of a structure or union, a parameter of a function or an enumerator. */
struct vms_type_part {
	const char *name;     /* "" if it has none; owned by the types */
	struct vms_type type; /* of an enumerator: void */
	uint64_t bit_offset;  /* of a member, in its structure */
	unsigned bits;	      /* of a bit field, else 0 */
	int64_t value;	      /* of an enumerator */
};

struct vms_types *vms_types_ref(struct vms_types *types);
void vms_types_unref(struct vms_types *types);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_types, vms_types_unref)

/*
 * Finds a type by its name in C: "struct sock", "union …", "enum …", a typedef, or an integer type
 * such as "unsigned long". Errors: NOT_FOUND, with the nearest names.
 */
bool vms_types_find(const struct vms_types *types, const char *name, struct vms_type *ret,
		    GError **error);
/*
 * Finds the prototype of a function. Errors: NOT_FOUND; UNSUPPORTED (several functions with this
 * name have different prototypes).
 */
bool vms_types_find_function(const struct vms_types *types, const char *name, struct vms_type *ret,
			     GError **error);
/* Finds an enumerator in any enumeration. False if there is none. */
bool vms_types_find_enumerator(const struct vms_types *types, const char *name, int64_t *ret);

void vms_type_get_info(struct vms_type type, struct vms_type_info *ret);
/* Gets a part. False if `index` is out of range. */
bool vms_type_get_part(struct vms_type type, uint32_t index, struct vms_type_part *ret);
/* Returns the type behind typedefs and qualifiers. Its kind is UNKNOWN if there is none. */
struct vms_type vms_type_resolve(struct vms_type type);
/*
 * Finds a member of a structure or union, also in its anonymous parts: `bit_offset` counts from the
 * begin of `type`. Errors: NOT_FOUND, with the nearest names; INVALID_ARGUMENT (`type` is not a
 * structure).
 */
bool vms_type_find_member(struct vms_type type, const char *name, struct vms_type_part *ret,
			  GError **error);
/* Returns the name as C writes it, for example "struct sock *" or "char[16]". Newly allocated. */
char *vms_type_name(struct vms_type type);
/*
 * True if values of the type are text: arrays of char or unsigned char, and pointers to const char
 * or const unsigned char. A typedef with another name is not text.
 */
bool vms_type_is_text(struct vms_type type);

/* ---- where arguments are --------------------------------------------------------- */

/*
 * Finds the register of a parameter at the function's entry. `*reg` is its index, from 0, among the
 * `n_registers` registers for arguments. Errors: NOT_FOUND (there is no such parameter),
 * UNSUPPORTED (it is on the stack, or it or an earlier parameter needs more than one register).
 */
bool vms_type_argument(struct vms_type function, uint32_t index, unsigned n_registers,
		       unsigned *reg, GError **error);

/* ---- values ---------------------------------------------------------------------- */

enum vms_type_format_flags {
	/* The value is the result of a function: a small negative number is an error. */
	VMS_TYPE_RESULT = 1 << 0,
};

/*
 * Appends a value as C writes it: "4096", "-2 (ENOENT)", "0xffff888004", "NULL", "true", "'a'",
 * "\"text\"", "SOCK_STREAM", "A|B|0x40", "{.x=1, .y={…}}", "{1, 2, …}". Integers in network byte
 * order are "htons(80)", "htonl(0x7f000001)". `size` may be less than the size of the type: then
 * "…" stands for the missing part. Depth, number of elements and length are limited.
 */
void vms_type_format(struct vms_type type, const void *bytes, size_t size, unsigned flags,
		     GString *out);

VMS_END_DECLS
