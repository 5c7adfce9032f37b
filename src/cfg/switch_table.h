/* SPDX-License-Identifier: MIT */
/*
 * Finds the table of a switch by the instructions that lead to its jump. They are followed
 * backwards from the jump, to find out what the registers contain at the jump.
 */
#pragma once

#include "arch/decoder.h"

struct vms_path_step {
	uint64_t va;
	const uint8_t *code; /* not owned */
	unsigned size;	     /* bytes of the instruction */
	bool jumped;	     /* control went from here to the element before this one by a jump */
};

/* The instructions that were executed before a jump, in reverse order. */
struct vms_path {
	struct vms_decoder *decoder;
	const struct vms_path_step *steps; /* [0] is the jump */
	unsigned n;
};

/* A switch table of `n` entries. */
struct vms_switch_table {
	uint64_t va;
	uint64_t n;
	unsigned entry_size; /* bytes */
	bool is_signed;
	bool is_relative; /* the target is `base` + (entry << shift); if false, the entry itself */
	uint64_t base;
	unsigned shift;
};

/*
 * Finds the switch table of the jump at the begin of the path. False if the jump uses none, or no
 * comparison on the path limits its index.
 */
bool vms_switch_table_find(const struct vms_path *path, struct vms_switch_table *ret);

/* ---- for the architectures ------------------------------------------------------ */

/* The same for one architecture. */
bool vms_switch_table_find_x86(const struct vms_path *path, struct vms_switch_table *ret);
bool vms_switch_table_find_aarch64(const struct vms_path *path, struct vms_switch_table *ret);

#define VMS_NOT_GENERAL (-1)

/* The registers of an architecture. */
struct vms_path_registers {
	/* Returns the number of a general register of any width, or VMS_NOT_GENERAL. */
	int (*get_number)(unsigned reg);
	/* True if the instruction is a call that may change the register. */
	bool (*is_clobbered)(const struct vms_path *path, const cs_insn *insn, int number);
};

/* Decodes a step. The result is valid until the next step is decoded. NULL if it is not known. */
const cs_insn *vms_path_decode(const struct vms_path *path, unsigned step);
/* True if the instruction may change a register. */
bool vms_path_writes(const struct vms_path *path, const struct vms_path_registers *registers,
		     const cs_insn *insn, int number);
/*
 * Finds the last instruction before the step `from` that may have changed a register, and sets
 * `*step` to its index. NULL if there is none on the path, or the register is not a general one.
 */
const cs_insn *vms_path_find_definition(const struct vms_path *path,
					const struct vms_path_registers *registers, unsigned from,
					int number, unsigned *step);
