/* SPDX-License-Identifier: MIT */
/* Where control goes after one instruction, by the instruction alone. */
#pragma once

#include "arch/decoder.h"

enum vms_way_kind {
	VMS_WAY_ON, /* to the next instruction */
	VMS_WAY_CALL,
	VMS_WAY_JUMP,
	VMS_WAY_CONDITIONAL, /* to the target or to the next instruction */
	VMS_WAY_INDIRECT,    /* a jump whose target is in a register or in memory */
	VMS_WAY_TRAP,	     /* to the kernel's handler, which may come back or not */
	VMS_WAY_EXIT,	     /* to a caller, or to what was interrupted */
};

struct vms_way {
	enum vms_way_kind kind;
	uint64_t target; /* of a direct jump or call, else 0 */
};

/* Tells it of the instruction that was decoded last, and described as `insn`. */
struct vms_way vms_way_of(const struct vms_decoder *decoder, const struct vms_insn *insn);
/*
 * Returns the size of an instruction that libcapstone 4 does not know, but after which control is
 * known to go on. 0: these bytes are no such instruction.
 */
unsigned vms_way_unknown_size(const struct vms_decoder *decoder, const uint8_t *code, size_t n);
