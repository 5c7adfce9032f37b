/* SPDX-License-Identifier: MIT */
#include "agent/cpu/branch.h"

#define REX_B 1
#define REX_R 4
#define RBP   5
#define RSP   4

struct insn {
	const uint8_t *bytes; /* the opcode and what follows it */
	size_t size;
	uint8_t rex;
	bool rep;
};

/*
 * A REX prefix counts only directly before the opcode. As the last byte it is an opcode of 32-bit
 * code.
 */
static struct insn skip_prefixes(const uint8_t *bytes, size_t size)
{
	struct insn insn = { .rex = 0 };
	size_t i = 0;
	for (; i + 1 < size; i++) {
		uint8_t b = bytes[i];
		bool segment =
			b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0x64 || b == 0x65;
		bool rep = b == 0xf2 || b == 0xf3, rex = (b & 0xf0) == 0x40;
		if (!segment && !rep && !rex && b != 0x66 && b != 0x67 && b != 0xf0)
			break;
		insn.rep |= rep;
		insn.rex = rex ? b : 0;
	}
	insn.bytes = bytes + i;
	insn.size = size - i;
	return insn;
}

/* Returns the rest of the instruction, from `from` on, as a signed number. */
static int64_t read_displacement(const struct insn *insn, size_t from)
{
	uint64_t value = 0;
	size_t size = insn->size - from;
	for (size_t i = 0; i < size && i < 4; i++)
		value |= (uint64_t)insn->bytes[from + i] << (8 * i);
	uint64_t sign = 1ULL << (8 * size - 1);
	return (int64_t)((value ^ sign) - sign);
}

static struct branch decode_direct(enum branch_kind kind, const struct insn *insn, size_t from)
{
	size_t size = insn->size - from;
	if (insn->size <= from || (size != 1 && size != 2 && size != 4))
		return (struct branch) { BRANCH_NONE };
	return (struct branch) { .kind = kind, .displacement = read_displacement(insn, from) };
}

static struct branch make_branch(enum branch_kind kind)
{
	return (struct branch) { .kind = kind };
}

/* Opcode ff: a field of the second byte selects the operation. */
static struct branch decode_group5(const struct insn *insn)
{
	uint8_t modrm = insn->bytes[1], operation = modrm >> 3 & 7;
	bool is_register = modrm >> 6 == 3, call = operation == 2, jump = operation == 4;
	if (is_register && (call || jump))
		return (struct branch) {
			.kind = call ? BRANCH_CALL_REGISTER : BRANCH_JUMP_REGISTER,
			.reg = (uint8_t)((modrm & 7) | (insn->rex & REX_B) << 3),
		};
	if (is_register)
		return make_branch(BRANCH_NONE);
	if (call || jump)
		return (struct branch) {
			.kind = call ? BRANCH_CALL_MEMORY : BRANCH_JUMP_MEMORY,
			/* [rip + disp32], in 32-bit code [disp32]; 16-bit code has another form. */
			.fixed = (modrm & 0xc7) == 5 && insn->size == 6,
		};
	return make_branch(operation == 3 || operation == 5 ? BRANCH_FAR : BRANCH_NONE);
}

/* mov and xchg may load rsp; lea computes from rsp or rbp. */
static struct branch decode_stack_load(const struct insn *insn)
{
	uint8_t opcode = insn->bytes[0], modrm = insn->bytes[1];
	unsigned reg = (modrm >> 3 & 7) | (insn->rex & REX_R) << 1;
	unsigned rm = modrm >> 6 == 3 ? (modrm & 7u) | (insn->rex & REX_B) << 3u : UINT8_MAX;
	bool loaded = false;
	if (opcode == 0x8b)
		loaded = reg == RSP && rm != RBP && rm != RSP;
	else if (opcode == 0x89)
		loaded = rm == RSP && reg != RBP && reg != RSP;
	else
		loaded = (reg == RSP) != (rm == RSP);
	return make_branch(loaded ? BRANCH_STACK_LOAD : BRANCH_NONE);
}

static struct branch decode_two_byte_opcode(const struct insn *insn)
{
	uint8_t opcode = insn->bytes[1];
	if ((opcode & 0xf0) == 0x80)
		return decode_direct(BRANCH_JUMP_CONDITIONAL, insn, 2);
	if (opcode == 0x07 || opcode == 0x35)
		return make_branch(BRANCH_EXCEPTION_RETURN);
	return make_branch(BRANCH_NONE);
}

static bool is_string_opcode(uint8_t opcode)
{
	return (opcode >= 0x6c && opcode <= 0x6f) || (opcode >= 0xa4 && opcode <= 0xa7) ||
	       (opcode >= 0xaa && opcode <= 0xaf);
}

struct branch branch_x86(const uint8_t *bytes, size_t size)
{
	struct insn insn = skip_prefixes(bytes, size);
	if (insn.size == 0)
		return make_branch(BRANCH_NONE);
	uint8_t opcode = insn.bytes[0];
	if ((opcode & 0xf0) == 0x70 || (opcode >= 0xe0 && opcode <= 0xe3))
		return decode_direct(BRANCH_JUMP_CONDITIONAL, &insn, 1);
	if (is_string_opcode(opcode) && insn.rep)
		return make_branch(BRANCH_REPEAT);
	switch (opcode) {
	case 0xe8: return decode_direct(BRANCH_CALL, &insn, 1);
	case 0xe9:
	case 0xeb: return decode_direct(BRANCH_JUMP, &insn, 1);
	case 0xc2:
	case 0xc3: return make_branch(BRANCH_RETURN);
	case 0x9a:
	case 0xea:
	case 0xca:
	case 0xcb: return make_branch(BRANCH_FAR);
	case 0xcf: return make_branch(BRANCH_EXCEPTION_RETURN);
	case 0x5c: /* pop rsp */
	case 0x94: /* xchg rax, rsp */
		return make_branch(insn.rex & REX_B ? BRANCH_NONE : BRANCH_STACK_LOAD);
	case 0xff: return insn.size > 1 ? decode_group5(&insn) : make_branch(BRANCH_NONE);
	case 0x87:
	case 0x89:
	case 0x8b: return insn.size > 1 ? decode_stack_load(&insn) : make_branch(BRANCH_NONE);
	case 0x0f: return insn.size > 1 ? decode_two_byte_opcode(&insn) : make_branch(BRANCH_NONE);
	default: return make_branch(BRANCH_NONE);
	}
}
