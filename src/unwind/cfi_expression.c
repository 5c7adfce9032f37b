/* SPDX-License-Identifier: MIT */
/*
 * Expressions of call frame information: those of compilers, of procedure linkage tables and of
 * signal frames. They have no loops, as jumps are not known here.
 */
#include "unwind/cfi-private.h"
#include <dwarf.h>

#define DEPTH 16

struct evaluation {
	uint64_t stack[DEPTH];
	unsigned n;
	const struct vms_cfi_regs *regs;
	const struct vms_reader *memory;
	bool failed, unread;
};

static void push(struct evaluation *e, uint64_t value)
{
	if (e->n == DEPTH)
		e->failed = true;
	else
		e->stack[e->n++] = value;
}

static uint64_t pop(struct evaluation *e)
{
	if (e->n > 0)
		return e->stack[--e->n];
	e->failed = true;
	return 0;
}

static void push_register(struct evaluation *e, uint64_t reg, int64_t offset)
{
	if (reg >= VMS_CFI_REGS || !(e->regs->valid >> reg & 1))
		e->failed = true;
	else
		push(e, e->regs->value[reg] + (uint64_t)offset);
}

static void load(struct evaluation *e, unsigned size)
{
	uint64_t value = 0;
	const uint64_t va = pop(e);
	if (e->failed || size == 0 || size > sizeof(value)) {
		e->failed = true;
	} else if (!e->memory->read(e->memory->data, va, &value, size)) {
		e->failed = e->unread = true;
	}
	push(e, GUINT64_FROM_LE(value));
}

static bool push_constant(struct evaluation *e, struct vms_cfi_input *input, uint8_t op)
{
	switch (op) {
	case DW_OP_addr:
	case DW_OP_const8u:
	case DW_OP_const8s: push(e, vms_cfi_unsigned(input, 8)); return true;
	case DW_OP_const1u: push(e, vms_cfi_unsigned(input, 1)); return true;
	case DW_OP_const1s: push(e, (uint64_t)(int8_t)vms_cfi_unsigned(input, 1)); return true;
	case DW_OP_const2u: push(e, vms_cfi_unsigned(input, 2)); return true;
	case DW_OP_const2s: push(e, (uint64_t)(int16_t)vms_cfi_unsigned(input, 2)); return true;
	case DW_OP_const4u: push(e, vms_cfi_unsigned(input, 4)); return true;
	case DW_OP_const4s: push(e, (uint64_t)(int32_t)vms_cfi_unsigned(input, 4)); return true;
	case DW_OP_constu: push(e, vms_cfi_uleb(input)); return true;
	case DW_OP_consts: push(e, (uint64_t)vms_cfi_sleb(input)); return true;
	default: return false;
	}
}

static bool calculate(uint8_t op, uint64_t a, uint64_t b, uint64_t *ret)
{
	const int64_t x = (int64_t)a, y = (int64_t)b;
	switch (op) {
	case DW_OP_and: *ret = a & b; return true;
	case DW_OP_or: *ret = a | b; return true;
	case DW_OP_xor: *ret = a ^ b; return true;
	case DW_OP_plus: *ret = a + b; return true;
	case DW_OP_minus: *ret = a - b; return true;
	case DW_OP_mul: *ret = a * b; return true;
	case DW_OP_shl: *ret = b < 64 ? a << b : 0; return true;
	case DW_OP_shr: *ret = b < 64 ? a >> b : 0; return true;
	case DW_OP_shra: *ret = (uint64_t)(x >> MIN(b, 63)); return true;
	case DW_OP_eq: *ret = x == y; return true;
	case DW_OP_ne: *ret = x != y; return true;
	case DW_OP_ge: *ret = x >= y; return true;
	case DW_OP_gt: *ret = x > y; return true;
	case DW_OP_le: *ret = x <= y; return true;
	case DW_OP_lt: *ret = x < y; return true;
	default: return false;
	}
}

static void run_operation(struct evaluation *e, struct vms_cfi_input *input, uint8_t op)
{
	uint64_t reg, value, top;
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		push(e, op - DW_OP_lit0);
	} else if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
		push_register(e, op - DW_OP_breg0, vms_cfi_sleb(input));
	} else if (op == DW_OP_bregx) {
		reg = vms_cfi_uleb(input);
		push_register(e, reg, vms_cfi_sleb(input));
	} else if (op == DW_OP_deref) {
		load(e, sizeof(uint64_t));
	} else if (op == DW_OP_deref_size) {
		load(e, vms_cfi_u8(input));
	} else if (op == DW_OP_plus_uconst) {
		push(e, pop(e) + vms_cfi_uleb(input));
	} else if (op == DW_OP_dup) {
		value = pop(e);
		push(e, value);
		push(e, value);
	} else if (op == DW_OP_drop) {
		pop(e);
	} else if (op != DW_OP_nop && !push_constant(e, input, op)) {
		top = pop(e);
		value = pop(e);
		e->failed |= !calculate(op, value, top, &value);
		push(e, value);
	}
}

bool vms_cfi_evaluate(struct vms_bytes expression, const uint64_t *cfa,
		      const struct vms_cfi_regs *regs, const struct vms_reader *stack,
		      uint64_t *ret, bool *unread)
{
	struct evaluation e = { .regs = regs, .memory = stack };
	struct vms_cfi_input input = { .bytes = expression };
	if (cfa)
		push(&e, *cfa);
	while (input.at < expression.size && !e.failed && !input.failed)
		run_operation(&e, &input, vms_cfi_u8(&input));
	*ret = pop(&e);
	*unread |= e.unread;
	return !e.failed && !input.failed;
}
