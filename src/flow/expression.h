/* SPDX-License-Identifier: MIT */
/* Compiles expressions (vms_probe_set_condition says of which form) into programs. */
#pragma once

#include <vmscope/guest.h>

/* What names in an expression mean. */
struct vms_expression_scope {
	const struct vms_arch *arch;
	struct vms_guest *guest;
};

/*
 * Appends operations to an array of struct vms_op that leave the value of the expression on the
 * stack. If it fails, the array is as it was. Errors: INVALID_ARGUMENT, with the position.
 */
bool vms_expression_compile(const struct vms_expression_scope *scope, const char *text, GArray *ops,
			    GError **error);
/* The same for the address of a string: an expression that gives it, or a string as comm. */
bool vms_expression_compile_string(const struct vms_expression_scope *scope, const char *text,
				   GArray *ops, GError **error);
