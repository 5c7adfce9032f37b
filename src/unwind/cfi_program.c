/* SPDX-License-Identifier: MIT */
/* Runs the programs of call frame information: they become rows. */
#include "unwind/cfi-private.h"
#include <dwarf.h>

#define ROWS_LIMIT	  (1u << 14)
#define RULES_LIMIT	  (1u << 16)
#define REMEMBERED_LIMIT  16	     /* states; compilers use one */
#define EXPRESSION_LIMIT  256	     /* bytes of one */
#define EXPRESSIONS_LIMIT (1u << 16) /* bytes of all of a function */

/* An instruction of aarch64 that dwarf.h does not name; it has the number of GNU_window_save. */
#define CFA_AARCH64_NEGATE_RA_STATE	    0x2d
#define CFA_AARCH64_NEGATE_RA_STATE_WITH_PC 0x2c

struct state {
	struct vms_cfi_rule cfa;
	struct vms_cfi_rule rules[VMS_CFI_REGS]; /* by register */
};

/* A program that runs. */
struct run {
	const struct vms_cfi_entry *entry;
	struct vms_cfi_function *function;
	struct state state, initial;
	struct state remembered[REMEMBERED_LIMIT];
	unsigned n_remembered;
	uint64_t at; /* address */
	bool failed;
};

/* ---- rows ------------------------------------------------------------- */

/* Adds the rules to the function's, unless the last row has the same. */
static void keep_rules(struct vms_cfi_function *function, const struct state *state,
		       struct vms_cfi_kept_row *row)
{
	struct vms_cfi_rule rules[VMS_CFI_REGS];
	unsigned n = 0;
	for (unsigned i = 0; i < VMS_CFI_REGS; i++)
		if (state->rules[i].kind != VMS_CFI_SAME)
			rules[n++] = state->rules[i];
	row->n = (uint16_t)n;
	row->rules = function->rules->len;
	if (function->rows->len > 0) {
		const struct vms_cfi_kept_row *last = &g_array_index(
			function->rows, struct vms_cfi_kept_row, function->rows->len - 1);
		/* Without any rules the array has no memory yet. */
		if (last->n == n &&
		    (n == 0 ||
		     memcmp(&g_array_index(function->rules, struct vms_cfi_rule, last->rules),
			    rules, n * sizeof(*rules)) == 0)) {
			row->rules = last->rules;
			return;
		}
	}
	g_array_append_vals(function->rules, rules, n);
}

/* Adds the row of the addresses from `start` up to `end`. */
static void keep_row(struct run *run, uint64_t start, uint64_t end)
{
	struct vms_cfi_function *function = run->function;
	struct vms_cfi_kept_row row = { .cfa = run->state.cfa };
	if (start >= end)
		return;
	if (run->state.cfa.kind == VMS_CFI_SAME || function->rows->len >= ROWS_LIMIT ||
	    function->rules->len >= RULES_LIMIT) {
		run->failed = true;
		return;
	}
	row.start = (uint32_t)(start - function->start);
	keep_rules(function, &run->state, &row);
	g_array_append_val(function->rows, row);
}

static void advance(struct run *run, uint64_t by)
{
	const uint64_t end = run->function->start + run->function->size;
	if (run->at >= end || by > end - run->at)
		by = end > run->at ? end - run->at : 0;
	keep_row(run, run->at, run->at + by);
	run->at += by;
}

/* ---- rules ------------------------------------------------------------ */

static void set_rule(struct run *run, uint64_t reg, enum vms_cfi_kind kind, int64_t value,
		     uint16_t size)
{
	if (reg >= VMS_CFI_REGS)
		return;
	run->failed |= value != (int32_t)value;
	run->state.rules[reg] = (struct vms_cfi_rule) {
		.reg = (uint8_t)reg,
		.kind = (uint8_t)kind,
		.size = size,
		.value = kind == VMS_CFI_SAME ? 0 : (int32_t)value,
	};
}

static void set_cfa(struct run *run, uint64_t reg, int64_t offset)
{
	run->failed |= reg >= VMS_CFI_REGS || offset != (int32_t)offset;
	run->state.cfa = (struct vms_cfi_rule) {
		.reg = (uint8_t)reg,
		.kind = VMS_CFI_VAL_OFFSET,
		.value = (int32_t)offset,
	};
}

/* The offset of the CFA changes, which must be a register's. */
static void set_cfa_offset(struct run *run, int64_t offset)
{
	run->failed |= run->state.cfa.kind != VMS_CFI_VAL_OFFSET;
	set_cfa(run, run->state.cfa.reg, offset);
}

static void set_cfa_reg(struct run *run, uint64_t reg)
{
	run->failed |= run->state.cfa.kind != VMS_CFI_VAL_OFFSET;
	set_cfa(run, reg, run->state.cfa.value);
}

static void restore(struct run *run, uint64_t reg)
{
	if (reg < VMS_CFI_REGS)
		run->state.rules[reg] = run->initial.rules[reg];
}

/* Takes an expression. Returns where it begins among those of the function. */
static int64_t take_expression(struct run *run, struct vms_cfi_input *input, uint16_t *size)
{
	GByteArray *bytes = run->function->bytes;
	const struct vms_cfi_input part = vms_cfi_take(input, vms_cfi_uleb(input));
	*size = 0;
	if (part.failed || part.bytes.size > EXPRESSION_LIMIT ||
	    bytes->len + part.bytes.size > EXPRESSIONS_LIMIT) {
		run->failed = true;
		return 0;
	}
	*size = (uint16_t)part.bytes.size;
	const guint at = bytes->len;
	g_byte_array_append(bytes, part.bytes.data, (guint)part.bytes.size);
	return at;
}

static void set_expression(struct run *run, struct vms_cfi_input *input, enum vms_cfi_kind kind)
{
	const uint64_t reg = vms_cfi_uleb(input);
	uint16_t size;
	const int64_t at = take_expression(run, input, &size);
	set_rule(run, reg, kind, at, size);
}

static void set_cfa_expression(struct run *run, struct vms_cfi_input *input)
{
	struct vms_cfi_rule *cfa = &run->state.cfa;
	*cfa = (struct vms_cfi_rule) { .kind = VMS_CFI_VAL_EXPRESSION };
	cfa->value = (int32_t)take_expression(run, input, &cfa->size);
}

static void remember(struct run *run)
{
	if (run->n_remembered == REMEMBERED_LIMIT)
		run->failed = true;
	else
		run->remembered[run->n_remembered++] = run->state;
}

static void recall(struct run *run)
{
	if (run->n_remembered == 0)
		run->failed = true;
	else
		run->state = run->remembered[--run->n_remembered];
}

static int64_t scale(const struct run *run, int64_t factored)
{
	int64_t value;
	/* An offset that overflows is none that set_rule takes. */
	return __builtin_mul_overflow(factored, run->entry->data_align, &value) ? INT64_MAX : value;
}

/* ---- instructions ----------------------------------------------------- */

static void advance_scaled(struct run *run, uint64_t by)
{
	uint64_t bytes;
	advance(run,
		__builtin_mul_overflow(by, run->entry->code_align, &bytes) ? UINT64_MAX : bytes);
}

/* Runs an instruction that sets the CFA or the address. False if it is none. */
static bool run_place(struct run *run, struct vms_cfi_input *input, uint8_t code)
{
	uint64_t to;
	switch (code) {
	case DW_CFA_set_loc:
		to = vms_cfi_pointer(input, run->entry->encoding, 0);
		run->failed |= to < run->at;
		advance(run, to - run->at);
		return true;
	case DW_CFA_advance_loc1: advance_scaled(run, vms_cfi_unsigned(input, 1)); return true;
	case DW_CFA_advance_loc2: advance_scaled(run, vms_cfi_unsigned(input, 2)); return true;
	case DW_CFA_advance_loc4: advance_scaled(run, vms_cfi_unsigned(input, 4)); return true;
	case DW_CFA_def_cfa:
		to = vms_cfi_uleb(input);
		set_cfa(run, to, (int64_t)vms_cfi_uleb(input));
		return true;
	case DW_CFA_def_cfa_sf:
		to = vms_cfi_uleb(input);
		set_cfa(run, to, scale(run, vms_cfi_sleb(input)));
		return true;
	case DW_CFA_def_cfa_register: set_cfa_reg(run, vms_cfi_uleb(input)); return true;
	case DW_CFA_def_cfa_offset: set_cfa_offset(run, (int64_t)vms_cfi_uleb(input)); return true;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa_offset(run, scale(run, vms_cfi_sleb(input)));
		return true;
	case DW_CFA_def_cfa_expression: set_cfa_expression(run, input); return true;
	default: return false;
	}
}

/* Runs an instruction that sets the rule of a register. False if it is none. */
static bool run_rule(struct run *run, struct vms_cfi_input *input, uint8_t code)
{
	uint64_t reg;
	switch (code) {
	case DW_CFA_offset_extended:
		reg = vms_cfi_uleb(input);
		set_rule(run, reg, VMS_CFI_OFFSET, scale(run, (int64_t)vms_cfi_uleb(input)), 0);
		return true;
	case DW_CFA_offset_extended_sf:
		reg = vms_cfi_uleb(input);
		set_rule(run, reg, VMS_CFI_OFFSET, scale(run, vms_cfi_sleb(input)), 0);
		return true;
	case DW_CFA_val_offset:
		reg = vms_cfi_uleb(input);
		set_rule(run, reg, VMS_CFI_VAL_OFFSET, scale(run, (int64_t)vms_cfi_uleb(input)), 0);
		return true;
	case DW_CFA_val_offset_sf:
		reg = vms_cfi_uleb(input);
		set_rule(run, reg, VMS_CFI_VAL_OFFSET, scale(run, vms_cfi_sleb(input)), 0);
		return true;
	case DW_CFA_restore_extended: restore(run, vms_cfi_uleb(input)); return true;
	case DW_CFA_undefined:
		set_rule(run, vms_cfi_uleb(input), VMS_CFI_UNDEFINED, 0, 0);
		return true;
	case DW_CFA_same_value: set_rule(run, vms_cfi_uleb(input), VMS_CFI_SAME, 0, 0); return true;
	case DW_CFA_register:
		reg = vms_cfi_uleb(input);
		set_rule(run, reg, VMS_CFI_REGISTER, (int64_t)vms_cfi_uleb(input), 0);
		return true;
	case DW_CFA_expression: set_expression(run, input, VMS_CFI_EXPRESSION); return true;
	case DW_CFA_val_expression: set_expression(run, input, VMS_CFI_VAL_EXPRESSION); return true;
	default: return false;
	}
}

static void run_other(struct run *run, struct vms_cfi_input *input, uint8_t code)
{
	switch (code) {
	case DW_CFA_nop: break;
	case DW_CFA_remember_state: remember(run); break;
	case DW_CFA_restore_state: recall(run); break;
	case DW_CFA_GNU_args_size: vms_cfi_uleb(input); break;
	/* All return addresses are stripped of their codes, signed or not. */
	case CFA_AARCH64_NEGATE_RA_STATE:
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC: run->failed |= !run->entry->is_aarch64; break;
	default: run->failed = true;
	}
}

static bool run_program(struct run *run, struct vms_cfi_input input)
{
	while (input.at < input.bytes.size) {
		const uint8_t code = vms_cfi_u8(&input), operand = code & 0x3f;
		switch (code & 0xc0) {
		case DW_CFA_advance_loc: advance_scaled(run, operand); break;
		case DW_CFA_offset:
			set_rule(run, operand, VMS_CFI_OFFSET,
				 scale(run, (int64_t)vms_cfi_uleb(&input)), 0);
			break;
		case DW_CFA_restore: restore(run, operand); break;
		default:
			if (!run_place(run, &input, code) && !run_rule(run, &input, code))
				run_other(run, &input, code);
		}
		if (run->failed || input.failed)
			return false;
	}
	return true;
}

/* ---- functions -------------------------------------------------------- */

struct vms_cfi_function *vms_cfi_function_new(const struct vms_cfi_entry *entry)
{
	struct vms_cfi_function *function = g_new0(struct vms_cfi_function, 1);
	g_autofree struct run *run = g_new0(struct run, 1);
	function->start = entry->start;
	function->size = entry->size;
	function->return_reg = entry->return_reg;
	function->is_signal = entry->is_signal;
	function->rows = g_array_new(FALSE, FALSE, sizeof(struct vms_cfi_kept_row));
	function->rules = g_array_new(FALSE, FALSE, sizeof(struct vms_cfi_rule));
	function->bytes = g_byte_array_new();
	run->entry = entry;
	run->function = function;
	/* The program that functions share sets the first state only: it moves no address. */
	bool done = run_program(run, entry->initial) && function->rows->len == 0;
	run->initial = run->state;
	run->at = entry->start;
	done = done && run_program(run, entry->program);
	keep_row(run, run->at, entry->start + entry->size);
	if (done && !run->failed)
		return function;
	vms_cfi_function_free(function);
	return NULL;
}

void vms_cfi_function_free(struct vms_cfi_function *function)
{
	if (!function)
		return;
	g_array_unref(function->rows);
	g_array_unref(function->rules);
	g_byte_array_unref(function->bytes);
	g_free(function);
}

size_t vms_cfi_function_bytes(const struct vms_cfi_function *function)
{
	return sizeof(*function) + function->rows->len * sizeof(struct vms_cfi_kept_row) +
	       function->rules->len * sizeof(struct vms_cfi_rule) + function->bytes->len;
}
