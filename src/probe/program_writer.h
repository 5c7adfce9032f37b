/* SPDX-License-Identifier: MIT */
/* Functions that append operations to a program. */
#pragma once

#include "probe/program.h"
#include <glib.h>

/* Appends an operation to an array of struct vms_op. */
static inline void vms_program_add(GArray *ops, enum vms_op_code code, unsigned size,
				   uint64_t value)
{
	const struct vms_op op = { .code = (uint16_t)code, .size = (uint16_t)size, .value = value };
	g_array_append_val(ops, op);
}

static inline void vms_program_push(GArray *ops, uint64_t value)
{
	vms_program_add(ops, VMS_OP_PUSH, 0, value);
}

static inline void vms_program_register(GArray *ops, unsigned reg)
{
	vms_program_add(ops, VMS_OP_REGISTER, 0, reg);
}

/* Appends an operation whose operands are all on the stack. */
static inline void vms_program_do(GArray *ops, enum vms_op_code code)
{
	vms_program_add(ops, code, 0, 0);
}

/*
 * Appends operations that replace an address on the stack by the integer of `size` bytes at
 * `offset` from it.
 */
static inline void vms_program_load(GArray *ops, unsigned size, uint64_t offset)
{
	if (offset) {
		vms_program_push(ops, offset);
		vms_program_do(ops, VMS_OP_ADD);
	}
	vms_program_add(ops, VMS_OP_LOAD, size, 0);
}
