/* SPDX-License-Identifier: MIT */
/*
 * What a probe does when it is hit: a small program for a stack machine, which tests conditions and
 * collects values. The library makes it of entries and expressions, and checks it. It runs where
 * the hit happens: in vmscope, or inside QEMU in the thread of the vCPU. So it is plain data, it
 * only goes forward and thus ends, and neither this header nor program.c needs more than the C
 * library.
 *
 * The stack holds 64-bit values. A value that depends on memory or a register that could not be
 * read is unknown, and so is what is computed of it. A division by zero is unknown, too.
 *
 * Memory that was collected a moment ago is not read again: loads take it from there. To collect
 * a structure first and then to look into it costs one read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VMS_PROGRAM_OPS_MAX    1024u
#define VMS_PROGRAM_STACK_MAX  32u    /* values */
#define VMS_PROGRAM_OUTPUT_MAX 28672u /* bytes of all collected values */
/* Bytes of all values of a hit: of a call's program and of its return's. */
#define VMS_HIT_VALUES_MAX     (2 * VMS_PROGRAM_OUTPUT_MAX)
#define VMS_ARGUMENTS_KEPT_MAX 8u /* registers that a program of a return needs of the call */

enum vms_op_code {
	VMS_OP_PUSH,	 /* → `value` */
	VMS_OP_REGISTER, /* → register `value` of the architecture */
	VMS_OP_VCPU,	 /* → number of the vCPU */
	VMS_OP_LOAD,	 /* address → integer of `size` bytes there: 1, 2, 4 or 8 */
	VMS_OP_EXTEND,	 /* a → its low `size` bytes, with their sign */
	VMS_OP_ADD,	 /* a, b → a + b; and so on */
	VMS_OP_SUBTRACT,
	VMS_OP_MULTIPLY,
	VMS_OP_DIVIDE, /* without sign, as VMS_OP_MODULO */
	VMS_OP_MODULO,
	VMS_OP_DIVIDE_SIGNED,
	VMS_OP_MODULO_SIGNED,
	VMS_OP_AND,
	VMS_OP_OR,
	VMS_OP_XOR,
	VMS_OP_SHIFT_LEFT, /* by 64 and more: 0 */
	VMS_OP_SHIFT_RIGHT,
	VMS_OP_EQUAL, /* a, b → 1 or 0; and so on */
	VMS_OP_LESS,
	VMS_OP_LESS_OR_EQUAL,
	VMS_OP_LESS_SIGNED,
	VMS_OP_LESS_OR_EQUAL_SIGNED,
	VMS_OP_IS_ZERO,	  /* a → 1 or 0 */
	VMS_OP_DUPLICATE, /* a → a, a */
	VMS_OP_DROP,	  /* a → */
	/* Leaves out the next `value` operations if a is zero, or is not, or is unknown. */
	VMS_OP_SKIP_IF_ZERO,	 /* a → a if it skips, else → */
	VMS_OP_SKIP_UNLESS_ZERO, /* a → a if it skips, else → */
	VMS_OP_REQUIRE,		 /* a → ; the program ends here if a is zero or unknown */
	VMS_OP_COLLECT,		 /* a → ; the low `size` bytes of a are a value: 1 to 8 */
	VMS_OP_COLLECT_MEMORY,	 /* address → ; `size` bytes there are a value */
	/* The bytes there before the first 0 are a value: `size` at most. */
	VMS_OP_COLLECT_STRING, /* address → */
	VMS_OP_ELAPSED,	       /* → time since the function was called, in ns; 0: at its call */
	/* → register `value`; in the program of a return, what it was at the call */
	VMS_OP_ARGUMENT,
	/*
	 * The bytes there up to the first page that cannot be read are a value: `size` at most,
	 * cut if there may be more.
	 */
	VMS_OP_COLLECT_READABLE,   /* address → */
	VMS_OP_SHIFT_RIGHT_SIGNED, /* a, b → a >> b with a's sign; by 64 and more: 0 or -1 */
	/*
	 * The n bytes there are a value: `size` at most, and up to the first page that cannot be
	 * read; cut if that is less.
	 */
	VMS_OP_COLLECT_COUNTED, /* address, n → */
	/*
	 * The next two make a list: a value of `size` bytes at most that consists of values with
	 * their heads. It is cut if there is more to list. `value` is a vms_op_list.
	 *
	 * The strings that an array of pointers there leads to, up to a null pointer.
	 */
	VMS_OP_COLLECT_STRINGS, /* address → */
	/*
	 * The memory that an array of n pairs of an address and a size leads to, as a struct iovec
	 * does: for each the pair, and then its bytes. Only the first `limit` bytes of all are
	 * there.
	 */
	VMS_OP_COLLECT_PIECES, /* address, n, limit → */
	VMS_OP_COUNT,
};

#define VMS_LIST_ITEMS_MAX 32u	 /* strings or pieces of a list */
#define VMS_LIST_BYTES_MAX 4096u /* of each */

/* What VMS_OP_COLLECT_STRINGS and _PIECES list, as the operation's `value`. */
static inline uint64_t vms_op_list(unsigned n_items, unsigned item_size, unsigned pointer_size)
{
	return n_items | (uint64_t)item_size << 16 | (uint64_t)pointer_size << 32;
}

struct vms_op {
	uint16_t code; /* enum vms_op_code */
	uint16_t size; /* bytes */
	uint32_t reserved;
	uint64_t value;
};

struct vms_program {
	const struct vms_op *ops;
	size_t n;
};

/* How a value was collected. */
enum vms_value_status {
	VMS_VALUE_KNOWN,
	VMS_VALUE_UNREADABLE, /* memory or a register that it depends on cannot be read: no bytes */
	VMS_VALUE_CUT,	      /* a string that goes on after its bytes */
	VMS_VALUE_COUNT,
};

/* Stands before the bytes of every value in the output, without padding. Never aligned. */
struct vms_value_head {
	uint16_t status; /* enum vms_value_status */
	uint16_t size;	 /* bytes that follow */
};

/* A register as it was when a function was called. */
struct vms_kept_argument {
	uint32_t reg;
	bool known;
	uint64_t value;
};

/* Where a program gets what it asks for. The functions return false if it cannot be read. */
struct vms_program_input {
	bool (*reg)(void *data, unsigned reg, uint64_t *ret);
	bool (*read)(void *data, uint64_t va, void *buf, size_t size);
	void *data;
	unsigned vcpu;
	uint64_t elapsed_ns; /* for VMS_OP_ELAPSED */
	/* For VMS_OP_ARGUMENT in the program of a return; NULL: it is none. */
	const struct vms_kept_argument *kept;
	unsigned n_kept;
};

enum vms_program_end {
	VMS_PROGRAM_COMPLETE,
	VMS_PROGRAM_REJECTED, /* what it requires does not hold */
	VMS_PROGRAM_UNKNOWN,  /* what it requires cannot be told */
};

/* True if an operation adds a value to the output: of `size` bytes at most. */
bool vms_program_collects(const struct vms_op *op);
/*
 * Checks that a program can be run: that its operations are known, its stack and its output stay
 * within their limits on every way, registers are below `n_regs`. Must be true before it is run.
 */
bool vms_program_check(const struct vms_program *program, unsigned n_regs);
/*
 * Lists the registers of all VMS_OP_ARGUMENT, each once: *n of them. False: there are more than
 * VMS_ARGUMENTS_KEPT_MAX.
 */
bool vms_program_list_arguments(const struct vms_program *program,
				uint32_t regs[VMS_ARGUMENTS_KEPT_MAX], unsigned *n);
/*
 * Runs a program. `output` has VMS_PROGRAM_OUTPUT_MAX bytes; *size becomes how many of them are
 * used, also when the program ends early.
 */
enum vms_program_end vms_program_run(const struct vms_program *program,
				     const struct vms_program_input *input, uint8_t *output,
				     size_t *size);
