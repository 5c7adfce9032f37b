/* SPDX-License-Identifier: MIT */
/*
 * A program says what a probe does when it is hit. It is a small program for a stack machine, which
 * tests conditions and collects values. The library compiles it from entries and expressions, and
 * checks it. It runs where the hit happens: in vmscope, or inside QEMU in the thread of the vCPU.
 * So it is plain data. It has no jumps backwards, so it always ends. This header and program.c need
 * only the C library.
 *
 * The stack has 64-bit values. A value that depends on memory or a register that could not be read
 * is unknown. A result that is computed from an unknown value is unknown too, and so is a division
 * by zero.
 *
 * A load takes bytes from the values that were collected last, if they have them, and does not read
 * the memory again. So a program that collects a structure and then uses its members reads once.
 */
#pragma once

#include "probe/wide.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VMS_PROGRAM_OPS_MAX    1024u
#define VMS_PROGRAM_STACK_MAX  32u    /* values */
#define VMS_PROGRAM_OUTPUT_MAX 61440u /* bytes of all collected values */
/* Bytes of all values of a hit: those of a call's program and of its return's program. */
#define VMS_HIT_VALUES_MAX     (2 * VMS_PROGRAM_OUTPUT_MAX)
#define VMS_ARGUMENTS_KEPT_MAX 8u /* arguments of a call that the program of its return can use */

enum vms_op_code {
	VMS_OP_PUSH,	 /* → `value` */
	VMS_OP_REGISTER, /* → register `value` of the architecture */
	VMS_OP_VCPU,	 /* → number of the vCPU */
	VMS_OP_LOAD,	 /* address → integer of `size` bytes there: 1, 2, 4 or 8 */
	VMS_OP_EXTEND,	 /* a → its low `size` bytes, sign-extended */
	VMS_OP_ADD,	 /* a, b → a + b; the next ones are similar */
	VMS_OP_SUBTRACT,
	VMS_OP_MULTIPLY,
	VMS_OP_DIVIDE, /* unsigned, like VMS_OP_MODULO */
	VMS_OP_MODULO,
	VMS_OP_DIVIDE_SIGNED,
	VMS_OP_MODULO_SIGNED,
	VMS_OP_AND,
	VMS_OP_OR,
	VMS_OP_XOR,
	VMS_OP_SHIFT_LEFT, /* by 64 and more: 0 */
	VMS_OP_SHIFT_RIGHT,
	VMS_OP_EQUAL, /* a, b → 1 or 0; the next ones are similar */
	VMS_OP_LESS,
	VMS_OP_LESS_OR_EQUAL,
	VMS_OP_LESS_SIGNED,
	VMS_OP_LESS_OR_EQUAL_SIGNED,
	VMS_OP_IS_ZERO,	  /* a → 1 or 0 */
	VMS_OP_DUPLICATE, /* a → a, a */
	VMS_OP_DROP,	  /* a → */
	/* Skip the next `value` operations if a is zero (or is not zero), or is unknown. */
	VMS_OP_SKIP_IF_ZERO,	 /* a → a if it skips, else → */
	VMS_OP_SKIP_UNLESS_ZERO, /* a → a if it skips, else → */
	VMS_OP_REQUIRE,		 /* a → ; ends the program if a is zero or unknown */
	VMS_OP_COLLECT,		 /* a → ; collects the low `size` bytes of a: 1 to 8 */
	VMS_OP_COLLECT_MEMORY,	 /* address → ; collects `size` bytes there */
	/* Collects the bytes there before the first 0: `size` at most. */
	VMS_OP_COLLECT_STRING, /* address → */
	VMS_OP_ELAPSED,	       /* → ns since the function was called; 0 at its call */
	/* → register `value`; in the program of a return, the register's value at the call */
	VMS_OP_ARGUMENT,
	/*
	 * Collects the bytes there up to the first page that cannot be read: `size` at most. The
	 * value is CUT if there may be more.
	 */
	VMS_OP_COLLECT_READABLE,   /* address → */
	VMS_OP_SHIFT_RIGHT_SIGNED, /* a, b → a >> b with a's sign; by 64 and more: 0 or -1 */
	/*
	 * The n bytes there are a value, but at most `size`, and only up to the first unreadable
	 * page. The value is cut if it has fewer than n bytes.
	 */
	VMS_OP_COLLECT_COUNTED, /* address, n → */
	/*
	 * The next two make a list: a value of at most `size` bytes that consists of values with
	 * their heads. It is cut if there are more items. `value` is a vms_op_list.
	 *
	 * A list of strings. The address is that of an array of pointers, up to a null pointer.
	 */
	VMS_OP_COLLECT_STRINGS, /* address → */
	/*
	 * A list of pieces of memory. The address is that of an array of n pairs of an address and
	 * a size, like a struct iovec[]. Its items are a pair, then the bytes of the pair, and so
	 * on. The list has the first `limit` bytes of all pieces together.
	 */
	VMS_OP_COLLECT_PIECES, /* address, n, limit → */
	/* The next two take a part of a wide register; `value` is a vms_op_wide. */
	VMS_OP_COLLECT_WIDE, /* → ; collects `size` bytes of it */
	VMS_OP_WIDE,	     /* → integer of `size` bytes in it: 1, 2, 4 or 8 */
	VMS_OP_COUNT,
};

#define VMS_LIST_ITEMS_MAX 32u	 /* strings or pieces of a list */
#define VMS_LIST_BYTES_MAX 4096u /* of each */

/* Returns the `value` of VMS_OP_COLLECT_STRINGS and VMS_OP_COLLECT_PIECES. */
static inline uint64_t vms_op_list(unsigned n_items, unsigned item_size, unsigned pointer_size)
{
	return n_items | (uint64_t)item_size << 16 | (uint64_t)pointer_size << 32;
}

/* Returns the `value` of VMS_OP_COLLECT_WIDE and VMS_OP_WIDE: the part begins at byte `offset`. */
static inline uint64_t vms_op_wide(unsigned number, unsigned offset)
{
	return number | (uint64_t)offset << 16;
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
	VMS_VALUE_UNREADABLE, /* memory or a register that it needs cannot be read: no bytes */
	VMS_VALUE_CUT,	      /* there are more bytes than were collected */
	VMS_VALUE_COUNT,
};

/* Precedes the bytes of every value in the output. There is no padding, so it is not aligned. */
struct vms_value_head {
	uint16_t status; /* enum vms_value_status */
	uint16_t size;	 /* bytes that follow */
};

/* The value of a register when a function was called. */
struct vms_kept_argument {
	uint32_t reg;
	bool known;
	uint64_t value;
};

/* The input of a program. The functions return false if something cannot be read. */
struct vms_program_input {
	bool (*reg)(void *data, unsigned reg, uint64_t *ret);
	bool (*read)(void *data, uint64_t va, void *buf, size_t size);
	void *data;
	unsigned vcpu;
	uint64_t elapsed_ns; /* for VMS_OP_ELAPSED */
	/* For VMS_OP_ARGUMENT in the program of a return; NULL in other programs. */
	const struct vms_kept_argument *kept;
	unsigned n_kept;
	/* Reads the first `size` bytes of a wide register. NULL: none can be read. */
	bool (*wide)(void *data, unsigned number, void *buf, size_t size);
};

enum vms_program_end {
	VMS_PROGRAM_COMPLETE,
	VMS_PROGRAM_REJECTED, /* a required condition is false */
	VMS_PROGRAM_UNKNOWN,  /* a required condition is unknown */
};

/* True if an operation adds a value, of `size` bytes at most, to the output. */
bool vms_program_collects(const struct vms_op *op);
/* True if a program reads wide registers. */
bool vms_program_has_wide(const struct vms_program *program);
/*
 * True if a program is valid: its operations are known, its stack and output stay within their
 * limits on every path, and registers are below `n_regs`. Must be checked before a program is run.
 */
bool vms_program_check(const struct vms_program *program, unsigned n_regs);
/*
 * Lists the registers of all VMS_OP_ARGUMENT, each once, and sets *n. False if there are more than
 * VMS_ARGUMENTS_KEPT_MAX.
 */
bool vms_program_list_arguments(const struct vms_program *program,
				uint32_t regs[VMS_ARGUMENTS_KEPT_MAX], unsigned *n);
/*
 * Runs a program. `output` has room for VMS_PROGRAM_OUTPUT_MAX bytes. Sets *size to the number of
 * bytes used, also if the program ends early.
 */
enum vms_program_end vms_program_run(const struct vms_program *program,
				     const struct vms_program_input *input, uint8_t *output,
				     size_t *size);
