/* SPDX-License-Identifier: MIT */
/* Steps out of a frame by a row of call frame information. */
#include "unwind/cfi-private.h"

static bool get_register(const struct vms_cfi_regs *regs, int64_t reg, uint64_t *ret)
{
	if (reg < 0 || reg >= VMS_CFI_REGS || !(regs->valid >> reg & 1))
		return false;
	*ret = regs->value[reg];
	return true;
}

static struct vms_bytes get_expression(const struct vms_cfi_row *row,
				       const struct vms_cfi_rule *rule)
{
	return (struct vms_bytes) { row->bytes + rule->value, rule->size };
}

static bool find_cfa(const struct vms_cfi_row *row, const struct vms_reader *stack,
		     const struct vms_cfi_regs *regs, uint64_t *ret, bool *unread)
{
	if (row->cfa.kind == VMS_CFI_VAL_EXPRESSION)
		return vms_cfi_evaluate(get_expression(row, &row->cfa), NULL, regs, stack, ret,
					unread);
	if (!get_register(regs, row->cfa.reg, ret))
		return false;
	*ret += (uint64_t)(int64_t)row->cfa.value;
	return true;
}

static bool load(const struct vms_reader *stack, uint64_t va, uint64_t *ret, bool *unread)
{
	if (stack->read(stack->data, va, ret, sizeof(*ret))) {
		*ret = GUINT64_FROM_LE(*ret);
		return true;
	}
	*unread = true;
	return false;
}

/* Finds the value that the caller's register has. */
static bool find_value(const struct vms_cfi_row *row, const struct vms_cfi_rule *rule, uint64_t cfa,
		       const struct vms_reader *stack, const struct vms_cfi_regs *regs,
		       uint64_t *ret, bool *unread)
{
	uint64_t va;
	switch (rule->kind) {
	case VMS_CFI_OFFSET: return load(stack, cfa + (uint64_t)(int64_t)rule->value, ret, unread);
	case VMS_CFI_VAL_OFFSET: *ret = cfa + (uint64_t)(int64_t)rule->value; return true;
	case VMS_CFI_REGISTER: return get_register(regs, rule->value, ret);
	case VMS_CFI_EXPRESSION:
		return vms_cfi_evaluate(get_expression(row, rule), &cfa, regs, stack, &va,
					unread) &&
		       load(stack, va, ret, unread);
	case VMS_CFI_VAL_EXPRESSION:
		return vms_cfi_evaluate(get_expression(row, rule), &cfa, regs, stack, ret, unread);
	default: return false;
	}
}

bool vms_cfi_step(const struct vms_cfi_row *row, unsigned sp, const struct vms_reader *stack,
		  struct vms_cfi_regs *regs, bool *unread)
{
	struct vms_cfi_regs caller = *regs;
	uint64_t cfa;
	*unread = false;
	if (!find_cfa(row, stack, regs, &cfa, unread))
		return false;
	caller.value[sp] = cfa;
	caller.valid |= UINT32_C(1) << sp;
	for (unsigned i = 0; i < row->n; i++) {
		const struct vms_cfi_rule *rule = &row->rules[i];
		bool other_unread = false;
		const bool found = find_value(row, rule, cfa, stack, regs, &caller.value[rule->reg],
					      &other_unread);
		caller.valid &= ~(UINT32_C(1) << rule->reg);
		caller.valid |= (uint32_t)found << rule->reg;
		if (!found && rule->reg == row->return_reg) {
			*unread = other_unread;
			return false;
		}
	}
	*regs = caller;
	return true;
}
