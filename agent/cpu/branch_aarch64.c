/* SPDX-License-Identifier: MIT */
#include "agent/cpu/branch.h"

#define SP 31
#define FP 29

/* The instruction has the displacement from its own address, in words. */
static struct branch decode_direct(enum branch_kind kind, uint32_t insn, unsigned shift,
				   unsigned bits)
{
	uint64_t sign = 1ULL << (bits - 1);
	uint64_t words = insn >> shift & ((1ULL << bits) - 1);
	int64_t value = (int64_t)((words ^ sign) - sign);
	return (struct branch) { .kind = kind, .displacement = value * 4 - 4 };
}

static struct branch make_register_branch(enum branch_kind kind, uint8_t reg)
{
	return (struct branch) { .kind = kind, .reg = reg };
}

/* Branches to a register, with pointer authentication (braa, retaa, eretaa …) or without. */
static struct branch decode_register_branch(uint32_t insn)
{
	uint8_t rn = insn >> 5 & 31;
	uint32_t rest = insn & 0xfc1f;
	bool plain = rest == 0, with_zero = (insn & 0xf81f) == 0x081f;
	bool any_modifier = (insn & 0xf800) == 0x0800;
	switch (insn >> 21 & 15) {
	case 0:
		return make_register_branch(plain || with_zero ? BRANCH_JUMP_REGISTER : BRANCH_NONE,
					    rn);
	case 1:
		return make_register_branch(plain || with_zero ? BRANCH_CALL_REGISTER : BRANCH_NONE,
					    rn);
	case 2:
		if (with_zero && rn == 31)
			return make_register_branch(BRANCH_RETURN, 30);
		return make_register_branch(plain ? BRANCH_RETURN : BRANCH_NONE, rn);
	case 4:
		return make_register_branch(
			(plain || with_zero) && rn == 31 ? BRANCH_EXCEPTION_RETURN : BRANCH_NONE,
			0);
	case 8: return make_register_branch(any_modifier ? BRANCH_JUMP_REGISTER : BRANCH_NONE, rn);
	case 9: return make_register_branch(any_modifier ? BRANCH_CALL_REGISTER : BRANCH_NONE, rn);
	default: return make_register_branch(BRANCH_NONE, 0);
	}
}

struct branch branch_aarch64(const uint8_t *bytes, size_t size)
{
	if (size != 4)
		return (struct branch) { BRANCH_NONE };
	uint32_t insn = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
			(uint32_t)bytes[3] << 24;
	uint8_t rn = insn >> 5 & 31, rd = insn & 31;
	if (insn >> 26 == 0x25)
		return decode_direct(BRANCH_CALL, insn, 0, 26);
	if (insn >> 26 == 0x05)
		return decode_direct(BRANCH_JUMP, insn, 0, 26);
	if (insn >> 24 == 0x54 || (insn & 0x7e000000) == 0x34000000)
		return decode_direct(BRANCH_JUMP_CONDITIONAL, insn, 5, 19);
	if ((insn & 0x7e000000) == 0x36000000)
		return decode_direct(BRANCH_JUMP_CONDITIONAL, insn, 5, 14);
	if ((insn & 0xfe1f0000) == 0xd61f0000)
		return decode_register_branch(insn);
	/* add and sub with an immediate operand; mov sp, xN is one of them */
	if ((insn & 0xbf800000) == 0x91000000 && rd == SP && rn != SP && rn != FP)
		return (struct branch) { BRANCH_STACK_LOAD };
	return (struct branch) { BRANCH_NONE };
}
