/* SPDX-License-Identifier: MIT */
#include "cfg/branch.h"

static enum vms_branch_kind classify_x86(const cs_insn *insn, uint64_t target)
{
	switch (insn->id) {
	case X86_INS_RET:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSRET:
	case X86_INS_SYSEXIT:
	case X86_INS_LJMP: return VMS_BRANCH_EXIT;
	case X86_INS_CALL:
	case X86_INS_LCALL: return VMS_BRANCH_CALL;
	case X86_INS_JMP: return target ? VMS_BRANCH_JUMP : VMS_BRANCH_INDIRECT;
	case X86_INS_UD0:
	case X86_INS_UD2:
	case X86_INS_UD2B:
	case X86_INS_INT3: return VMS_BRANCH_TRAP;
	default: return target ? VMS_BRANCH_CONDITIONAL : VMS_BRANCH_NONE;
	}
}

static enum vms_branch_kind classify_aarch64(const cs_insn *insn, uint64_t target)
{
	arm64_cc condition = insn->detail->arm64.cc;
	switch (insn->id) {
	case ARM64_INS_RET:
	case ARM64_INS_ERET:
	case ARM64_INS_DRPS: return VMS_BRANCH_EXIT;
	case ARM64_INS_BL:
	case ARM64_INS_BLR: return VMS_BRANCH_CALL;
	case ARM64_INS_BR: return VMS_BRANCH_INDIRECT;
	case ARM64_INS_B:
		return condition == ARM64_CC_INVALID || condition == ARM64_CC_AL
			       ? VMS_BRANCH_JUMP
			       : VMS_BRANCH_CONDITIONAL;
	case ARM64_INS_BRK:
	case ARM64_INS_HLT: return VMS_BRANCH_TRAP;
	default: return target ? VMS_BRANCH_CONDITIONAL : VMS_BRANCH_NONE;
	}
}

/*
 * Returns the target of a branch. xbegin counts as one: after an abort, control goes to its
 * operand.
 */
static uint64_t get_target(const struct vms_decoder *decoder, const struct vms_insn *insn)
{
	const cs_insn *detailed = decoder->insn;
	const bool is_x86 = decoder->arch->capstone_arch == CS_ARCH_X86;
	if (is_x86 && detailed->id == X86_INS_XBEGIN)
		return decoder->base + (uint64_t)detailed->detail->x86.operands[0].imm;
	return insn->branch_target;
}

struct vms_branch vms_branch_of(const struct vms_decoder *decoder, const struct vms_insn *insn)
{
	const uint64_t target = get_target(decoder, insn);
	const bool is_aarch64 = decoder->arch->capstone_arch == CS_ARCH_ARM64;
	return (struct vms_branch) {
		.kind = is_aarch64 ? classify_aarch64(decoder->insn, target)
				   : classify_x86(decoder->insn, target),
		.target = target,
	};
}

/* ---- instructions that libcapstone 4 does not know -------------------------------- */

/*
 * A64: bits 25 to 28 are the class of an instruction. 0, 1 and 3 are reserved, 2 is SVE. 10 and 11
 * are branches and system instructions; of these, system instructions begin with 1101010100.
 */
static unsigned measure_aarch64(const uint8_t *code, size_t n)
{
	uint32_t word;
	if (n < sizeof(word))
		return 0;
	memcpy(&word, code, sizeof(word));
	word = GUINT32_FROM_LE(word);
	const unsigned class = word >> 25 & 15;
	const bool is_branch_or_system = class == 10 || class == 11;
	const bool goes_on = is_branch_or_system ? word >> 22 == 0x354 : class == 2 || class > 3;
	return goes_on ? sizeof(word) : 0;
}

/* Returns the size of a ModRM byte with its SIB byte and displacement, or 0 if `n` is too small. */
static unsigned measure_operand(const uint8_t *code, size_t n, unsigned displacement8)
{
	if (n == 0)
		return 0;
	const unsigned mod = code[0] >> 6, rm = code[0] & 7;
	const bool has_sib = mod != 3 && rm == 4;
	if (has_sib && n < 2)
		return 0;
	const bool is_bare = mod == 0 && (rm == 5 || (has_sib && (code[1] & 7) == 5));
	const unsigned displacement = mod == 1 ? displacement8 : mod == 2 || is_bare ? 4 : 0;
	return 1 + has_sib + displacement;
}

/* AVX-512: 62, three bytes with map and registers, opcode, operand, optionally an immediate. */
static unsigned measure_evex(const uint8_t *code, size_t n)
{
	enum { PREFIX = 4, MAP_0F = 1, MAP_0F3A = 3 };
	if (n < PREFIX + 1)
		return 0;
	const unsigned map = code[1] & 7, opcode = code[PREFIX];
	const bool has_immediate =
		map == MAP_0F3A || (map == MAP_0F && ((opcode >= 0x70 && opcode <= 0x73) ||
						      (opcode >= 0xc2 && opcode <= 0xc6)));
	const unsigned operand = measure_operand(code + PREFIX + 1, n - PREFIX - 1, 1);
	const unsigned size = PREFIX + 1 + operand + has_immediate;
	return operand && size <= n ? size : 0;
}

/* System instructions with a register form of 0f 01 (rdpkru, vmgexit …) or 0f ae (tpause). */
static unsigned measure_x86(const uint8_t *code, size_t n)
{
	const unsigned prefix = n > 0 && (code[0] == 0x66 || code[0] == 0xf2 || code[0] == 0xf3);
	const uint8_t *opcode = code + prefix;
	return n >= prefix + 3 && opcode[0] == 0x0f && (opcode[1] == 0x01 || opcode[1] == 0xae) &&
			       opcode[2] >= 0xc0
		       ? prefix + 3
		       : 0;
}

unsigned vms_branch_unknown_size(const struct vms_decoder *decoder, const uint8_t *code, size_t n)
{
	if (decoder->arch->capstone_arch == CS_ARCH_ARM64)
		return measure_aarch64(code, n);
	return decoder->bits == 64 && n > 0 && code[0] == 0x62 ? measure_evex(code, n)
							       : measure_x86(code, n);
}
