/* SPDX-License-Identifier: MIT */
/*
 * The table of a switch, found by the instructions that lead to its jump. They are looked at from
 * the jump backwards: what a register held at the jump follows from what they did to it.
 */
#pragma once

#include "arch/decoder.h"

struct vms_path_step {
	uint64_t va;
	const uint8_t *code; /* not owned */
	unsigned size;	     /* bytes of the instruction */
	bool jumped;	     /* control came from here to the next step by the jump's target */
};

/* The way by which control came to a jump. */
struct vms_path {
	struct vms_decoder *decoder;
	const struct vms_path_step *steps; /* [0] is the jump */
	unsigned n;
};

/* A switch table: `n` entries, each of which leads to an address. */
struct vms_switch_table {
	uint64_t va;
	uint64_t n;
	unsigned entry_size; /* bytes */
	bool is_signed;
	bool is_relative; /* the address is `base` + (entry << shift), else the entry itself */
	uint64_t base;
	unsigned shift;
};

/*
 * Finds the switch table that the jump at the begin of the path reads. False if the jump reads
 * none, or nothing on the path bounds its index.
 */
bool vms_switch_table_find(const struct vms_path *path, struct vms_switch_table *ret);

/* ---- for the architectures ------------------------------------------------------ */

/* The same, of one architecture. */
bool vms_switch_table_find_x86(const struct vms_path *path, struct vms_switch_table *ret);
bool vms_switch_table_find_aarch64(const struct vms_path *path, struct vms_switch_table *ret);

#define VMS_NOT_GENERAL (-1)

/* The registers of an architecture. */
struct vms_path_registers {
	/* Returns the number of a general register, whatever its width, or VMS_NOT_GENERAL. */
	int (*number_of)(unsigned reg);
	/* True if the instruction is a call that may change the register. */
	bool (*is_lost)(const struct vms_path *path, const cs_insn *insn, int number);
};

/* Decodes a step. Valid until the next step is decoded. NULL if it is no known instruction. */
const cs_insn *vms_path_decode(const struct vms_path *path, unsigned step);
/* True if the instruction may change a register. */
bool vms_path_writes(const struct vms_path *path, const struct vms_path_registers *registers,
		     const cs_insn *insn, int number);
/*
 * Finds the last instruction before the step `from` that may have changed a register. `*step`
 * becomes its number. NULL if there is none on the path, or the register is not a general one.
 */
const cs_insn *vms_path_find_definition(const struct vms_path *path,
					const struct vms_path_registers *registers, unsigned from,
					int number, unsigned *step);
