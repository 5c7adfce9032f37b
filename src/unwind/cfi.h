/* SPDX-License-Identifier: MIT */
/*
 * DWARF call frame information as linkers leave it in programs: a sorted table of functions in
 * .eh_frame_hdr, which leads to their entries (FDE) in .eh_frame. An entry is a small program. It
 * tells for each instruction how to get from its frame to the caller's (DWARF 5, section 6.4; Linux
 * Standard Base, "Exception Frames").
 *
 * The file may lie, and parts of it may be missing. Each function is read when it is asked for
 * first. What its program tells is kept as rows, so that the next walk only looks it up.
 *
 * Own code, because it reads what hostile guests have in memory while they run: libdw cannot tell
 * a missing page from the end of a table, and keeps everything for good.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <vmscope/arch.h>

/*
 * Registers by DWARF's numbers: x86-64 has 0 to 15 and the return address; aarch64 has x0 to x30
 * and the stack pointer. Rules for others, of vectors, are ignored.
 */
#define VMS_CFI_REGS 32

enum vms_cfi_kind {
	VMS_CFI_SAME,		/* no rule, or the rule that the value stays */
	VMS_CFI_UNDEFINED,	/* the value is lost */
	VMS_CFI_OFFSET,		/* saved at the CFA plus `value` */
	VMS_CFI_VAL_OFFSET,	/* the CFA plus `value` */
	VMS_CFI_REGISTER,	/* in register `value` */
	VMS_CFI_EXPRESSION,	/* saved at the address that the expression gives */
	VMS_CFI_VAL_EXPRESSION, /* what the expression gives */
};

struct vms_cfi_rule {
	uint8_t reg;   /* whose rule it is; of the CFA: the register that `value` is added to */
	uint8_t kind;  /* enum vms_cfi_kind; of the CFA: VAL_OFFSET or VAL_EXPRESSION */
	uint16_t size; /* bytes of the expression */
	int32_t value; /* offset, register, or where the expression begins in `bytes` */
};

#define VMS_CFI_EXPRESSIONS 1024 /* bytes of all expressions of a row */

/* How to leave a frame at one address. */
struct vms_cfi_row {
	uint64_t start;	    /* the first address that it is valid at */
	uint8_t return_reg; /* the register that stands for the return address */
	bool is_signal;	    /* a frame that a signal put there: the caller was interrupted */
	uint8_t n;
	struct vms_cfi_rule cfa;
	struct vms_cfi_rule rules[VMS_CFI_REGS]; /* `n` of them, each of another register */
	uint8_t bytes[VMS_CFI_EXPRESSIONS];
};

enum vms_cfi_result {
	VMS_CFI_FOUND,
	VMS_CFI_NONE,	 /* the tables have nothing for the address */
	VMS_CFI_MISSING, /* a part of the tables cannot be read now */
	VMS_CFI_BAD,	 /* the tables make no sense */
};

struct vms_cfi;

/*
 * Makes an empty reader of tables. `file` reads by the file's own addresses. The .eh_frame_hdr is
 * at `header`, and has `size` bytes. `is_aarch64`: see VMS_CFI_REGS.
 */
struct vms_cfi *vms_cfi_new(const struct vms_reader *file, uint64_t header, uint64_t size,
			    bool is_aarch64);
/* The same for a file without .eh_frame_hdr. The .eh_frame is at `va`, and has `size` bytes. */
struct vms_cfi *vms_cfi_new_without_header(const struct vms_reader *file, uint64_t va,
					   uint64_t size, bool is_aarch64);
void vms_cfi_free(struct vms_cfi *cfi);
/* Finds the row that is valid at `va`, an address of the file. Any thread may call it. */
enum vms_cfi_result vms_cfi_find(struct vms_cfi *cfi, uint64_t va, struct vms_cfi_row *ret);
/* Returns the bytes of memory that the tables and rows take that were read so far. */
size_t vms_cfi_bytes(struct vms_cfi *cfi);

/* Registers of a frame. */
struct vms_cfi_regs {
	uint64_t value[VMS_CFI_REGS];
	uint32_t valid; /* bit i: value[i] is known */
};
/*
 * Steps from a frame to its caller's. `regs` are those of the frame, with the program counter as
 * `return_reg` on x86-64, and become the caller's: the stack pointer `sp` is the CFA if no rule
 * says more, and `return_reg` is the return address. `stack` reads memory. False if a register or
 * memory is needed that is not known; then *unread tells whether it was memory.
 */
bool vms_cfi_step(const struct vms_cfi_row *row, unsigned sp, const struct vms_reader *stack,
		  struct vms_cfi_regs *regs, bool *unread);
