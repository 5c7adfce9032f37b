/* SPDX-License-Identifier: MIT */
/* Compiles expressions into programs. vms_probe_set_condition describes expressions. */
#pragma once

#include "flow/wide_part.h"
#include <vmscope/guest.h>

/* What is known of types at the place of a probe. */
struct vms_known_types {
	struct vms_types *types; /* NULL: none */
	bool has_function;
	struct vms_type function; /* has_function: prototype of the function that begins there */
	bool is_return;		  /* the probe is at the return of the function */
	char *why;		  /* why types or arguments are not known, or NULL */
};

/* What names in an expression mean. */
struct vms_expression_scope {
	const struct vms_arch *arch;
	struct vms_guest *guest;
	const struct vms_known_types *known; /* NULL: nothing is known of types */
};

/*
 * Appends operations to an array of struct vms_op that leave the value of the expression on the
 * stack. If it fails, the array is as it was. Errors: INVALID_ARGUMENT, with the position.
 */
bool vms_expression_compile(const struct vms_expression_scope *scope, const char *text, GArray *ops,
			    GError **error);
/* The same for the address of a string: an expression for the address, or a string like comm. */
bool vms_expression_compile_string(const struct vms_expression_scope *scope, const char *text,
				   GArray *ops, GError **error);

/* The value that vms_expression_collect collects. */
struct vms_expression_value {
	bool is_wide; /* it is `wide`, and has no other type */
	struct vms_wide_part wide;
	bool has_type;	      /* if neither: it is an integer of 8 bytes */
	struct vms_type type; /* for vms_type_format */
	bool is_pointer;      /* it is a pointer to `type`, of 8 bytes */
	bool is_text;	      /* it is the text at a pointer; a second value is the pointer */
	bool is_result;	      /* it is the return value of the function */
};
/*
 * Appends operations that collect the value of an expression: a number, a structure or array, or
 * the text at a pointer to characters. `size` limits its bytes; 0 is the default limit.
 * Errors: as above.
 */
bool vms_expression_collect(const struct vms_expression_scope *scope, const char *text,
			    uint32_t size, GArray *ops, struct vms_expression_value *ret,
			    GError **error);
