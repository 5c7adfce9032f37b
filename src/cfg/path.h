/* SPDX-License-Identifier: MIT */
/*
 * The instructions by which control came to a jump, from the jump backwards. What a register held
 * at the jump is found by what they did to it.
 */
#pragma once

#include "arch/decoder.h"

struct vms_path_step {
	uint64_t va;
	const uint8_t *code; /* not owned */
	unsigned size;	     /* bytes of the instruction */
	bool jumped;	     /* control came from here to the next step by the jump's target */
};

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

/* Decodes a step. Valid until the next step is decoded. NULL if it is no known instruction. */
const cs_insn *vms_path_decode(const struct vms_path *path, unsigned step);
/*
 * Finds the switch table that the jump at the begin of the path reads. False if the jump reads
 * none, or nothing on the path bounds its index.
 */
bool vms_path_find_table_x86(const struct vms_path *path, struct vms_switch_table *ret);
bool vms_path_find_table_aarch64(const struct vms_path *path, struct vms_switch_table *ret);
