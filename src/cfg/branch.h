/* SPDX-License-Identifier: MIT */
/* Decodes where control goes after an instruction. */
#pragma once

#include "arch/decoder.h"

enum vms_branch_kind {
	VMS_BRANCH_NONE, /* to the next instruction */
	VMS_BRANCH_CALL,
	VMS_BRANCH_JUMP,
	VMS_BRANCH_CONDITIONAL, /* to the target or to the next instruction */
	VMS_BRANCH_INDIRECT,	/* a jump whose target is in a register or in memory */
	VMS_BRANCH_TRAP,	/* to the kernel's handler, which may return */
	VMS_BRANCH_EXIT,	/* to a caller, or to interrupted code */
};

struct vms_branch {
	enum vms_branch_kind kind;
	uint64_t target; /* of a direct jump or call, else 0 */
};

/* Classifies the instruction that was decoded last. `insn` is its description. */
struct vms_branch vms_branch_of(const struct vms_decoder *decoder, const struct vms_insn *insn);
/*
 * Returns the size of an instruction that libcapstone 4 does not know, if control certainly
 * continues at the next instruction. Returns 0 for other bytes.
 */
unsigned vms_branch_unknown_size(const struct vms_decoder *decoder, const uint8_t *code, size_t n);
