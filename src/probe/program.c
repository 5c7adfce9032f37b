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
	[VMS_OP_COLLECT_COUNTED] = { 2, 0 },
	[VMS_OP_COLLECT_STRINGS] = { 1, 0 },
	[VMS_OP_COLLECT_PIECES] = { 3, 0 },
	[VMS_OP_COLLECT_WIDE] = { 0, 0 },
	[VMS_OP_WIDE] = { 0, 1 },
};

static bool is_integer_size(unsigned size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* What a list has: see vms_op_list. */
struct list {
	unsigned n_items, item_size, pointer_size;
};

static struct list get_list(const struct vms_op *op)
{
	return (struct list) { op->value & 0xffff, op->value >> 16 & 0xffff,
			       (unsigned)(op->value >> 32) };
}

static bool is_valid_list(const struct vms_op *op)
{
	const struct list list = get_list(op);
	return op->size >= 1 && list.n_items >= 1 && list.n_items <= VMS_LIST_ITEMS_MAX &&
	       list.item_size >= 1 && list.item_size <= VMS_LIST_BYTES_MAX &&
	       (list.pointer_size == 4 || list.pointer_size == 8);
}

/* A part of a wide register: see vms_op_wide. */
struct wide_part {
	uint64_t number, offset;
};

static struct wide_part get_wide_part(const struct vms_op *op)
{
	return (struct wide_part) { op->value & 0xffff, op->value >> 16 };
}

static bool is_valid_wide_part(const struct vms_op *op)
{
	const struct wide_part part = get_wide_part(op);
	return part.number < VMS_WIDE_MAX && part.offset < VMS_WIDE_BYTES_MAX && op->size >= 1 &&
	       op->size <= VMS_WIDE_BYTES_MAX - part.offset;
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
	case VMS_OP_COLLECT_READABLE:
	case VMS_OP_COLLECT_COUNTED: return op->size >= 1;
	case VMS_OP_COLLECT_STRINGS:
	case VMS_OP_COLLECT_PIECES: return is_valid_list(op);
	case VMS_OP_COLLECT_WIDE: return is_valid_wide_part(op);
	case VMS_OP_WIDE: return is_integer_size(op->size) && is_valid_wide_part(op);
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
	       op->code == VMS_OP_COLLECT_READABLE ||
	       (op->code >= VMS_OP_COLLECT_COUNTED && op->code <= VMS_OP_COLLECT_WIDE);
}

bool vms_program_has_wide(const struct vms_program *program)
{
	for (size_t i = 0; i < program->n; i++)
		if (program->ops[i].code == VMS_OP_COLLECT_WIDE ||
		    program->ops[i].code == VMS_OP_WIDE)
			return true;
	return false;
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

/* Memory that is among the output's bytes. */
struct copy {
	uint64_t va;
	size_t size;
	const uint8_t *bytes;
};

#define COPIES 2u /* a structure, and what it leads to */

struct run {
	const struct vms_program_input *input;
	uint64_t values[VMS_PROGRAM_STACK_MAX];
	bool known[VMS_PROGRAM_STACK_MAX];
	unsigned depth;
	uint8_t *output;
	size_t size; /* bytes of the output */
	struct copy copies[COPIES];
	unsigned n_copies; /* in all; the last ones are there */
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

/* Takes memory from what was collected. False: it is not there. */
static bool read_copy(const struct run *run, uint64_t va, void *buf, size_t size)
{
	for (unsigned i = 0; i < COPIES && i < run->n_copies; i++) {
		const struct copy *copy = &run->copies[i];
		if (va - copy->va > copy->size || size > copy->size - (va - copy->va))
			continue;
		memcpy(buf, copy->bytes + (va - copy->va), size);
		return true;
	}
	return false;
}

/* Notes that the value which is collected next is `size` bytes of memory. */
static void note_copy(struct run *run, uint64_t va, size_t size)
{
	run->copies[run->n_copies++ % COPIES] =
		(struct copy) { va, size, run->output + run->size + sizeof(struct vms_value_head) };
}

static void run_load(struct run *run, unsigned size)
{
	uint64_t va, value = 0;
	const bool known =
		pop_value(run, &va) && (read_copy(run, va, &value, size) ||
					run->input->read(run->input->data, va, &value, size));
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
	if (known)
		note_copy(run, va, size);
	end_value(run, known ? VMS_VALUE_KNOWN : VMS_VALUE_UNREADABLE, known ? size : 0);
}

#define PAGE 4096u /* the smallest page: all of it can be read, or nothing */

/* Returns how many bytes from `va` on, `left` at most, are in the same page. */
static size_t limit_to_page(uint64_t va, size_t left)
{
	const size_t part = PAGE - va % PAGE;
	return part < left ? part : left;
}

/* Reads page by page up to memory that cannot be read. Returns the number of bytes. */
static size_t read_readable(struct run *run, uint64_t va, uint8_t *bytes, size_t size)
{
	size_t n = 0;
	while (n < size) {
		const size_t part = limit_to_page(va + n, size - n);
		if (!run->input->read(run->input->data, va + n, bytes + n, part))
			break;
		n += part;
	}
	return n;
}

/*
 * Reads a string page by page, because memory after its end may be unreadable. If unreadable memory
 * comes before its end, the string is cut there. Returns its length.
 */
static size_t read_string(struct run *run, uint64_t va, uint8_t *bytes, size_t size,
			  enum vms_value_status *status)
{
	size_t n = 0;
	*status = VMS_VALUE_CUT;
	while (n < size) {
		const size_t part = limit_to_page(va + n, size - n);
		if (!run->input->read(run->input->data, va + n, bytes + n, part))
			break;
		const uint8_t *end = memchr(bytes + n, 0, part);
		if (end) {
			*status = VMS_VALUE_KNOWN;
			return (size_t)(end - bytes);
		}
		n += part;
	}
	if (n == 0)
		*status = VMS_VALUE_UNREADABLE;
	return n;
}

static void collect_string(struct run *run, unsigned size)
{
	enum vms_value_status status = VMS_VALUE_UNREADABLE;
	uint64_t va;
	size_t n = 0;
	if (pop_value(run, &va))
		n = read_string(run, va, get_value_bytes(run), size, &status);
	end_value(run, status, n);
}

static void collect_readable(struct run *run, unsigned size)
{
	uint64_t va;
	const size_t n =
		pop_value(run, &va) ? read_readable(run, va, get_value_bytes(run), size) : 0;
	end_value(run,
		  n == 0      ? VMS_VALUE_UNREADABLE
		  : n == size ? VMS_VALUE_CUT
			      : VMS_VALUE_KNOWN,
		  n);
}

static void collect_counted(struct run *run, unsigned size)
{
	uint64_t va, count;
	const bool has_count = pop_value(run, &count), has_va = pop_value(run, &va);
	size_t n = 0;
	if (has_count && has_va)
		n = read_readable(run, va, get_value_bytes(run), count < size ? count : size);
	if (n)
		note_copy(run, va, n);
	end_value(run,
		  !has_count || (n == 0 && count) ? VMS_VALUE_UNREADABLE
		  : n < count			  ? VMS_VALUE_CUT
						  : VMS_VALUE_KNOWN,
		  n);
}

/* ---- wide registers --------------------------------------------------------------- */

static bool read_wide_part(const struct run *run, const struct vms_op *op, void *ret)
{
	const struct wide_part part = get_wide_part(op);
	uint8_t bytes[VMS_WIDE_BYTES_MAX];
	if (!run->input->wide || !run->input->wide(run->input->data, (unsigned)part.number, bytes,
						   part.offset + op->size))
		return false;
	memcpy(ret, bytes + part.offset, op->size);
	return true;
}

static void collect_wide(struct run *run, const struct vms_op *op)
{
	const bool known = read_wide_part(run, op, get_value_bytes(run));
	end_value(run, known ? VMS_VALUE_KNOWN : VMS_VALUE_UNREADABLE, known ? op->size : 0);
}

static void run_wide(struct run *run, const struct vms_op *op)
{
	uint64_t value = 0;
	const bool known = read_wide_part(run, op, &value);
	push_value(run, value, known);
}

/* ---- lists ------------------------------------------------------------------------ */

/* Where the items of a list go: into the bytes of the value that is collected. */
struct items {
	uint8_t *bytes;
	size_t n, size;
};

/* Returns how many bytes an item may have yet. 0: there is no room for another one. */
static size_t get_room(const struct items *items, size_t item_size)
{
	const size_t left = items->size - items->n, head = sizeof(struct vms_value_head);
	return left <= head ? 0 : left - head < item_size ? left - head : item_size;
}

static uint8_t *get_item_bytes(const struct items *items)
{
	return items->bytes + items->n + sizeof(struct vms_value_head);
}

/* Completes an item whose bytes are behind the place of its head. */
static void end_item(struct items *items, enum vms_value_status status, size_t size)
{
	const struct vms_value_head head = { (uint16_t)status, (uint16_t)size };
	memcpy(items->bytes + items->n, &head, sizeof(head));
	items->n += sizeof(head) + size;
}

static uint64_t get_pointer(const uint8_t *bytes, unsigned size)
{
	uint64_t pointer = 0;
	memcpy(&pointer, bytes, size);
	return pointer;
}

static void collect_strings(struct run *run, const struct vms_op *op)
{
	const struct list list = get_list(op);
	struct items items = { get_value_bytes(run), 0, op->size };
	uint8_t pointers[VMS_LIST_ITEMS_MAX * 8];
	enum vms_value_status status = VMS_VALUE_CUT, of_item;
	uint64_t va;
	size_t n = 0;
	if (pop_value(run, &va))
		n = read_readable(run, va, pointers, (size_t)list.n_items * list.pointer_size);
	n /= list.pointer_size;
	if (n == 0)
		status = VMS_VALUE_UNREADABLE;
	for (size_t i = 0; i < n; i++) {
		const uint64_t string =
			get_pointer(pointers + i * list.pointer_size, list.pointer_size);
		const size_t room = get_room(&items, list.item_size);
		if (string == 0)
			status = VMS_VALUE_KNOWN;
		if (string == 0 || room == 0)
			break;
		const size_t size =
			read_string(run, string, get_item_bytes(&items), room, &of_item);
		end_item(&items, of_item, size);
	}
	end_value(run, status, items.n);
}

/* Adds a piece: its pair, and `wanted` bytes. False: there is no room for it. */
static bool add_piece(struct run *run, struct items *items, const struct list *list,
		      const uint8_t *pair, uint64_t wanted)
{
	const size_t pair_size = 2 * (size_t)list->pointer_size;
	const size_t needed = pair_size + sizeof(struct vms_value_head);
	if (get_room(items, needed) < needed)
		return false;
	memcpy(get_item_bytes(items), pair, pair_size);
	end_item(items, VMS_VALUE_KNOWN, pair_size);
	const size_t room = get_room(items, list->item_size);
	const size_t n = read_readable(run, get_pointer(pair, list->pointer_size),
				       get_item_bytes(items), wanted < room ? wanted : room);
	end_item(items,
		 n == 0 && wanted ? VMS_VALUE_UNREADABLE
		 : n < wanted	  ? VMS_VALUE_CUT
				  : VMS_VALUE_KNOWN,
		 n);
	return true;
}

static void collect_pieces(struct run *run, const struct vms_op *op)
{
	const struct list list = get_list(op);
	const size_t pair_size = 2 * (size_t)list.pointer_size;
	struct items items = { get_value_bytes(run), 0, op->size };
	uint8_t pairs[VMS_LIST_ITEMS_MAX * 16];
	uint64_t va, count, left;
	const bool has_left = pop_value(run, &left), has_count = pop_value(run, &count),
		   has_va = pop_value(run, &va);
	const bool known = has_left && has_count && has_va;
	size_t n = known ? (count < list.n_items ? count : list.n_items) : 0, done = 0;
	n = read_readable(run, va, pairs, n * pair_size) / pair_size;
	while (done < n) {
		const uint8_t *pair = pairs + done * pair_size;
		const uint64_t size = get_pointer(pair + list.pointer_size, list.pointer_size);
		const uint64_t wanted = size < left ? size : left;
		if (!add_piece(run, &items, &list, pair, wanted))
			break;
		left -= wanted;
		done++;
	}
	end_value(run,
		  !known || (n == 0 && count) ? VMS_VALUE_UNREADABLE
		  : done < count	      ? VMS_VALUE_CUT
					      : VMS_VALUE_KNOWN,
		  items.n);
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
	case VMS_OP_COLLECT_COUNTED: collect_counted(run, op->size); break;
	case VMS_OP_COLLECT_STRINGS: collect_strings(run, op); break;
	case VMS_OP_COLLECT_PIECES: collect_pieces(run, op); break;
	case VMS_OP_COLLECT_WIDE: collect_wide(run, op); break;
	case VMS_OP_WIDE: run_wide(run, op); break;
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
	run.n_copies = 0;
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
