/* SPDX-License-Identifier: MIT */
/* What the files cfi*.c share. */
#pragma once

#include "base/bytes.h"
#include "unwind/cfi.h"

/* Bytes of a table that are read one after another. */
struct vms_cfi_input {
	struct vms_bytes bytes;
	size_t at;
	uint64_t va; /* of the first byte */
	bool failed; /* a value was cut off or had no meaning; all later ones are 0 */
};

uint8_t vms_cfi_u8(struct vms_cfi_input *input);
uint64_t vms_cfi_unsigned(struct vms_cfi_input *input, unsigned size); /* of 1, 2, 4 or 8 bytes */
uint64_t vms_cfi_uleb(struct vms_cfi_input *input);
int64_t vms_cfi_sleb(struct vms_cfi_input *input);
/* Reads a pointer in an encoding (DW_EH_PE_*). `data` is what DW_EH_PE_datarel counts from. */
uint64_t vms_cfi_pointer(struct vms_cfi_input *input, uint8_t encoding, uint64_t data);
/* Takes `size` bytes as an input of their own. */
struct vms_cfi_input vms_cfi_take(struct vms_cfi_input *input, uint64_t size);

/* What an entry of .eh_frame and the one that it shares with others (CIE) say. */
struct vms_cfi_entry {
	uint64_t start, size; /* addresses of the function */
	uint64_t code_align;
	int64_t data_align;
	uint8_t return_reg, encoding; /* DW_EH_PE_* of the function's addresses */
	bool is_signal, is_aarch64, has_augmentation;
	struct vms_cfi_input initial, program; /* instructions */
	uint8_t *bytes[2];		       /* that they are in */
};
/* Reads the entry at `va`. The caller clears it, whatever the result is. */
enum vms_cfi_result vms_cfi_entry_read(const struct vms_reader *file, uint64_t va, bool is_aarch64,
				       struct vms_cfi_entry *ret);
void vms_cfi_entry_clear(struct vms_cfi_entry *entry);

/* A line of a table of functions: where one starts, and where its entry is. */
struct vms_cfi_line {
	uint64_t start, entry;
};
/* Appends a line for each function of an .eh_frame at `va`, and sorts them. */
enum vms_cfi_result vms_cfi_scan(const struct vms_reader *file, uint64_t va, uint64_t size,
				 bool is_aarch64, GArray *lines);

/* A row as it is kept. Rows with the same rules share them. */
struct vms_cfi_kept_row {
	uint32_t start; /* from the function's start */
	uint32_t rules; /* index of the first one */
	uint16_t n;
	struct vms_cfi_rule cfa;
};

/* All rows of a function. */
struct vms_cfi_function {
	uint64_t start, size;
	uint8_t return_reg;
	bool is_signal;
	GArray *rows;	   /* struct vms_cfi_kept_row, by address */
	GArray *rules;	   /* struct vms_cfi_rule */
	GByteArray *bytes; /* of expressions */
};
/* Runs the programs of an entry. NULL if they make no sense. */
struct vms_cfi_function *vms_cfi_function_new(const struct vms_cfi_entry *entry);
void vms_cfi_function_free(struct vms_cfi_function *function);
size_t vms_cfi_function_bytes(const struct vms_cfi_function *function);

/*
 * Evaluates an expression. `cfa` is on its stack first, if it is not NULL. *unread becomes true if
 * it fails because memory cannot be read.
 */
bool vms_cfi_evaluate(struct vms_bytes expression, const uint64_t *cfa,
		      const struct vms_cfi_regs *regs, const struct vms_reader *stack,
		      uint64_t *ret, bool *unread);
