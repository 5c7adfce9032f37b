/* SPDX-License-Identifier: MIT */
#include "probe/program.h"
#include <string.h>

/* ---- check ---------------------------------------------------------------------- */

/* How many values an operation pops from the stack, and how many it pushes. */
struct effect {
	uint8_t pops, pushes;
};

static const struct effect effects[VMS_OP_COUNT] = {
	[VMS_OP_PUSH] = { 0, 1 },
	[VMS_OP_REGISTER] = { 0, 1 },
	[VMS_OP_VCPU] = { 0, 1 },
	[VMS_OP_LOAD] = { 1, 1 },
	[VMS_OP_EXTEND] = { 1, 1 },
	[VMS_OP_ADD... VMS_OP_LESS_OR_EQUAL_SIGNED] = { 2, 1 },
	[VMS_OP_IS_ZERO] = { 1, 1 },
	[VMS_OP_DUPLICATE] = { 1, 2 },
	[VMS_OP_DROP... VMS_OP_COLLECT_STRING] = { 1, 0 },
	[VMS_OP_ELAPSED] = { 0, 1 },
	[VMS_OP_ARGUMENT] = { 0, 1 },
	[VMS_OP_COLLECT_READABLE] = { 1, 0 },
	[VMS_OP_SHIFT_RIGHT_SIGNED] = { 2, 1 },
};

static bool is_integer_size(unsigned size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* True if the fields of an operation are valid. */
static bool has_valid_fields(const struct vms_op *op, unsigned n_regs)
{
	switch (op->code) {
	case VMS_OP_REGISTER:
	case VMS_OP_ARGUMENT: return op->value < n_regs;
	case VMS_OP_LOAD:
	case VMS_OP_EXTEND: return is_integer_size(op->size);
	case VMS_OP_COLLECT: return op->size >= 1 && op->size <= 8;
	case VMS_OP_COLLECT_MEMORY:
	case VMS_OP_COLLECT_STRING:
	case VMS_OP_COLLECT_READABLE: return op->size >= 1;
	default: return op->code < VMS_OP_COUNT;
	}
}

static bool is_skip(const struct vms_op *op)
{
	return op->code == VMS_OP_SKIP_IF_ZERO || op->code == VMS_OP_SKIP_UNLESS_ZERO;
}

bool vms_program_collects(const struct vms_op *op)
{
	return (op->code >= VMS_OP_COLLECT && op->code <= VMS_OP_COLLECT_STRING) ||
	       op->code == VMS_OP_COLLECT_READABLE;
}

/*
 * Notes the depth of the stack at the target of a skip; 0: no skip goes there. False if the target
 * is invalid, or another skip has a different depth there.
 */
static bool note_skip(const struct vms_program *program, size_t from, unsigned depth,
		      uint8_t depths[])
{
	const uint64_t to = from + 1 + program->ops[from].value;
	if (program->ops[from].value == 0 || program->ops[from].value > program->n ||
	    to > program->n)
		return false;
	if (depths[to] && depths[to] != depth)
		return false;
	depths[to] = (uint8_t)depth;
	return true;
}

bool vms_program_check(const struct vms_program *program, unsigned n_regs)
{
	uint8_t depths[VMS_PROGRAM_OPS_MAX + 1] = { 0 }; /* of the stack at targets of skips */
	unsigned depth = 0;
	size_t output = 0;
	if (program->n > VMS_PROGRAM_OPS_MAX)
		return false;
	for (size_t i = 0; i < program->n; i++) {
		const struct vms_op *op = &program->ops[i];
		if ((depths[i] && depths[i] != depth) || !has_valid_fields(op, n_regs) ||
		    depth < effects[op->code].pops)
			return false;
		/* If it skips, the tested value stays on the stack. */
		if (is_skip(op) && !note_skip(program, i, depth, depths))
			return false;
		depth += effects[op->code].pushes;
		depth -= effects[op->code].pops;
		if (vms_program_collects(op))
			output += sizeof(struct vms_value_head) + op->size;
		if (depth > VMS_PROGRAM_STACK_MAX || output > VMS_PROGRAM_OUTPUT_MAX)
			return false;
	}
	return !depths[program->n] || depths[program->n] == depth;
}

static bool is_listed(const uint32_t *regs, unsigned n, uint64_t reg)
{
	for (unsigned i = 0; i < n; i++)
		if (regs[i] == reg)
			return true;
	return false;
}

bool vms_program_list_arguments(const struct vms_program *program,
				uint32_t regs[VMS_ARGUMENTS_KEPT_MAX], unsigned *n)
{
	*n = 0;
	for (size_t i = 0; i < program->n; i++) {
		const struct vms_op *op = &program->ops[i];
		if (op->code != VMS_OP_ARGUMENT || is_listed(regs, *n, op->value))
			continue;
		if (*n == VMS_ARGUMENTS_KEPT_MAX)
			return false;
		regs[(*n)++] = (uint32_t)op->value;
	}
	return true;
}

/* ---- run ------------------------------------------------------------------------ */

struct run {
	const struct vms_program_input *input;
	uint64_t values[VMS_PROGRAM_STACK_MAX];
	bool known[VMS_PROGRAM_STACK_MAX];
	unsigned depth;
	uint8_t *output;
	size_t size; /* bytes of the output */
};

static void push_value(struct run *run, uint64_t value, bool known)
{
	run->values[run->depth] = known ? value : 0;
	run->known[run->depth++] = known;
}

static bool pop_value(struct run *run, uint64_t *ret)
{
	*ret = run->values[--run->depth];
	return run->known[run->depth];
}

static uint64_t sign_extend(uint64_t value, unsigned size)
{
	const unsigned shift = 64 - 8 * size;
	return (uint64_t)((int64_t)(value << shift) >> shift);
}

/* Divides. INT64_MIN / -1 would overflow, so division by -1 is done unsigned. */
static uint64_t divide_signed(int64_t a, int64_t b, bool modulo)
{
	if (b == -1)
		return modulo ? 0 : 0 - (uint64_t)a;
	return (uint64_t)(modulo ? a % b : a / b);
}

/* Shifts right, and fills with the sign bit. */
static uint64_t shift_signed(uint64_t a, uint64_t b)
{
	const uint64_t sign = a >> 63 ? UINT64_MAX : 0;
	return b < 64 ? (a ^ sign) >> b ^ sign : sign;
}

/* Computes the result of a binary operation. False if there is none. */
static bool compute_binary(unsigned code, uint64_t a, uint64_t b, uint64_t *ret)
{
	const bool divides = code >= VMS_OP_DIVIDE && code <= VMS_OP_MODULO_SIGNED;
	if (divides && b == 0)
		return false;
	switch (code) {
	case VMS_OP_ADD: *ret = a + b; break;
	case VMS_OP_SUBTRACT: *ret = a - b; break;
	case VMS_OP_MULTIPLY: *ret = a * b; break;
	case VMS_OP_DIVIDE: *ret = a / b; break;
	case VMS_OP_MODULO: *ret = a % b; break;
	case VMS_OP_DIVIDE_SIGNED: *ret = divide_signed((int64_t)a, (int64_t)b, false); break;
	case VMS_OP_MODULO_SIGNED: *ret = divide_signed((int64_t)a, (int64_t)b, true); break;
	case VMS_OP_AND: *ret = a & b; break;
	case VMS_OP_OR: *ret = a | b; break;
	case VMS_OP_XOR: *ret = a ^ b; break;
	case VMS_OP_SHIFT_LEFT: *ret = b < 64 ? a << b : 0; break;
	case VMS_OP_SHIFT_RIGHT: *ret = b < 64 ? a >> b : 0; break;
	case VMS_OP_SHIFT_RIGHT_SIGNED: *ret = shift_signed(a, b); break;
	case VMS_OP_EQUAL: *ret = a == b; break;
	case VMS_OP_LESS: *ret = a < b; break;
	case VMS_OP_LESS_OR_EQUAL: *ret = a <= b; break;
	case VMS_OP_LESS_SIGNED: *ret = (int64_t)a < (int64_t)b; break;
	case VMS_OP_LESS_OR_EQUAL_SIGNED: *ret = (int64_t)a <= (int64_t)b; break;
	default: return false;
	}
	return true;
}

static void run_binary(struct run *run, unsigned code)
{
	uint64_t a, b, result = 0;
	const bool b_known = pop_value(run, &b), a_known = pop_value(run, &a);
	const bool known = a_known && b_known && compute_binary(code, a, b, &result);
	push_value(run, result, known);
}

static void run_load(struct run *run, unsigned size)
{
	uint64_t va, value = 0;
	const bool known =
		pop_value(run, &va) && run->input->read(run->input->data, va, &value, size);
	push_value(run, value, known);
}

static void run_register(struct run *run, uint64_t reg)
{
	uint64_t value = 0;
	const bool known = run->input->reg(run->input->data, (unsigned)reg, &value);
	push_value(run, value, known);
}

static void run_argument(struct run *run, uint64_t reg)
{
	const struct vms_kept_argument *kept = run->input->kept;
	if (!kept) {
		run_register(run, reg);
		return;
	}
	for (unsigned i = 0; i < run->input->n_kept; i++)
		if (kept[i].reg == reg) {
			push_value(run, kept[i].value, kept[i].known);
			return;
		}
	push_value(run, 0, false);
}

/* Completes a value: writes its head before its `size` bytes, which are in the output already. */
static void end_value(struct run *run, enum vms_value_status status, size_t size)
{
	const struct vms_value_head head = { (uint16_t)status, (uint16_t)size };
	memcpy(run->output + run->size, &head, sizeof(head));
	run->size += sizeof(head) + size;
}

static uint8_t *get_value_bytes(const struct run *run)
{
	return run->output + run->size + sizeof(struct vms_value_head);
}

static void collect_integer(struct run *run, unsigned size)
{
	uint64_t value;
	const bool known = pop_value(run, &value);
	memcpy(get_value_bytes(run), &value, size);
	end_value(run, known ? VMS_VALUE_KNOWN : VMS_VALUE_UNREADABLE, known ? size : 0);
}

static void collect_memory(struct run *run, unsigned size)
{
	uint64_t va;
	const bool known = pop_value(run, &va) &&
			   run->input->read(run->input->data, va, get_value_bytes(run), size);
	end_value(run, known ? VMS_VALUE_KNOWN : VMS_VALUE_UNREADABLE, known ? size : 0);
}

#define PAGE 4096u /* the smallest page: all of it can be read, or nothing */

/* Returns how many bytes from `va` on, `left` at most, are in the same page. */
static size_t limit_to_page(uint64_t va, size_t left)
{
	const size_t part = PAGE - va % PAGE;
	return part < left ? part : left;
}

/*
 * Reads a string page by page, because memory after its end may be unreadable. If unreadable memory
 * comes before its end, the string is cut there.
 */
static void collect_string(struct run *run, unsigned size)
{
	uint8_t *bytes = get_value_bytes(run);
	const uint8_t *end = NULL;
	uint64_t va;
	bool readable = pop_value(run, &va);
	size_t n = 0;
	while (readable && !end && n < size) {
		const size_t part = limit_to_page(va + n, size - n);
		readable = run->input->read(run->input->data, va + n, bytes + n, part);
		if (readable) {
			end = memchr(bytes + n, 0, part);
			n += part;
		}
	}
	if (n == 0)
		end_value(run, VMS_VALUE_UNREADABLE, 0);
	else if (end)
		end_value(run, VMS_VALUE_KNOWN, (size_t)(end - bytes));
	else
		end_value(run, VMS_VALUE_CUT, n);
}

static void collect_readable(struct run *run, unsigned size)
{
	uint8_t *bytes = get_value_bytes(run);
	uint64_t va;
	bool readable = pop_value(run, &va);
	size_t n = 0;
	while (readable && n < size) {
		const size_t part = limit_to_page(va + n, size - n);
		readable = run->input->read(run->input->data, va + n, bytes + n, part);
		n += readable ? part : 0;
	}
	end_value(run,
		  n == 0      ? VMS_VALUE_UNREADABLE
		  : n == size ? VMS_VALUE_CUT
			      : VMS_VALUE_KNOWN,
		  n);
}

/* Runs an operation that neither skips nor ends the program. */
static void run_op(struct run *run, const struct vms_op *op)
{
	uint64_t value;
	bool known;
	switch (op->code) {
	case VMS_OP_PUSH: push_value(run, op->value, true); break;
	case VMS_OP_REGISTER: run_register(run, op->value); break;
	case VMS_OP_VCPU: push_value(run, run->input->vcpu, true); break;
	case VMS_OP_ELAPSED: push_value(run, run->input->elapsed_ns, true); break;
	case VMS_OP_ARGUMENT: run_argument(run, op->value); break;
	case VMS_OP_LOAD: run_load(run, op->size); break;
	case VMS_OP_EXTEND:
		known = pop_value(run, &value);
		push_value(run, sign_extend(value, op->size), known);
		break;
	case VMS_OP_IS_ZERO:
		known = pop_value(run, &value);
		push_value(run, value == 0, known);
		break;
	case VMS_OP_DUPLICATE:
		known = pop_value(run, &value);
		push_value(run, value, known);
		push_value(run, value, known);
		break;
	case VMS_OP_DROP: pop_value(run, &value); break;
	case VMS_OP_COLLECT: collect_integer(run, op->size); break;
	case VMS_OP_COLLECT_MEMORY: collect_memory(run, op->size); break;
	case VMS_OP_COLLECT_STRING: collect_string(run, op->size); break;
	case VMS_OP_COLLECT_READABLE: collect_readable(run, op->size); break;
	default: run_binary(run, op->code); break;
	}
}

/*
 * Runs a skip. True if operations are skipped. An unknown value skips, and stays on the stack: so
 * the result is unknown too.
 */
static bool run_skip(struct run *run, const struct vms_op *op)
{
	uint64_t value;
	const bool known = pop_value(run, &value);
	const bool does = !known || (value == 0) == (op->code == VMS_OP_SKIP_IF_ZERO);
	run->depth += does;
	return does;
}

enum vms_program_end vms_program_run(const struct vms_program *program,
				     const struct vms_program_input *input, uint8_t *output,
				     size_t *size)
{
	/* The stack is not initialised, because that would take longer than most programs. */
	struct run run;
	run.input = input;
	run.output = output;
	run.depth = 0;
	run.size = 0;
	enum vms_program_end end = VMS_PROGRAM_COMPLETE;
	for (size_t i = 0; i < program->n && end == VMS_PROGRAM_COMPLETE; i++) {
		const struct vms_op *op = &program->ops[i];
		uint64_t value;
		if (is_skip(op))
			i += run_skip(&run, op) ? op->value : 0;
		else if (op->code != VMS_OP_REQUIRE)
			run_op(&run, op);
		else if (!pop_value(&run, &value))
			end = VMS_PROGRAM_UNKNOWN;
		else if (value == 0)
			end = VMS_PROGRAM_REJECTED;
	}
	*size = run.size;
	return end;
}
