/* SPDX-License-Identifier: MIT */
/* What the agent takes instructions for, against what capstone says of the same bytes. */
#include "agent/cpu/branch.h"
#include <capstone/capstone.h>
#include <glib.h>
#include <link.h>
#include <string.h>

/* Sanitizers, with which this takes five times as long, have seen all of the code by the fewer. */
#define N_RANDOM   (g_test_slow() ? 400000U : 50000U)
#define REAL_BYTES (g_test_slow() ? 400000U : 50000U) /* of each file that is mapped */

static bool is_one_of(unsigned id, const unsigned *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}
#define ONE_OF(id, ...)                                                                            \
	is_one_of(id, (const unsigned[]) { __VA_ARGS__ },                                          \
		  sizeof((const unsigned[]) { __VA_ARGS__ }) / sizeof(unsigned))

static char *text_of(const cs_insn *insn)
{
	GString *text = g_string_new(NULL);
	for (unsigned i = 0; i < insn->size; i++)
		g_string_append_printf(text, "%02x ", insn->bytes[i]);
	g_string_append_printf(text, "%s %s", insn->mnemonic, insn->op_str);
	return g_string_free(text, FALSE);
}

static void compare(const cs_insn *insn, struct branch got, struct branch expected)
{
	g_autofree char *text = text_of(insn);
	bool same = got.kind == expected.kind && got.reg == expected.reg &&
		    got.displacement == expected.displacement && got.fixed == expected.fixed;
	if (!same) {
		g_test_message("%s: kind %d reg %u fixed %d %+" G_GINT64_FORMAT
			       ", expected kind %d reg %u fixed %d %+" G_GINT64_FORMAT,
			       text, got.kind, got.reg, got.fixed, got.displacement, expected.kind,
			       expected.reg, expected.fixed, expected.displacement);
		g_test_fail_printf("%s", text);
	}
}

/* ---- x86 ---------------------------------------------------------------------- */

/* The processor's number of a register, whatever part of it is named; -1: none of these. */
static int x86_number(unsigned reg)
{
	static const unsigned registers[16][3] = {
		{ X86_REG_RAX, X86_REG_EAX, X86_REG_AX },
		{ X86_REG_RCX, X86_REG_ECX, X86_REG_CX },
		{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX },
		{ X86_REG_RBX, X86_REG_EBX, X86_REG_BX },
		{ X86_REG_RSP, X86_REG_ESP, X86_REG_SP },
		{ X86_REG_RBP, X86_REG_EBP, X86_REG_BP },
		{ X86_REG_RSI, X86_REG_ESI, X86_REG_SI },
		{ X86_REG_RDI, X86_REG_EDI, X86_REG_DI },
		{ X86_REG_R8, X86_REG_R8D, X86_REG_R8W },
		{ X86_REG_R9, X86_REG_R9D, X86_REG_R9W },
		{ X86_REG_R10, X86_REG_R10D, X86_REG_R10W },
		{ X86_REG_R11, X86_REG_R11D, X86_REG_R11W },
		{ X86_REG_R12, X86_REG_R12D, X86_REG_R12W },
		{ X86_REG_R13, X86_REG_R13D, X86_REG_R13W },
		{ X86_REG_R14, X86_REG_R14D, X86_REG_R14W },
		{ X86_REG_R15, X86_REG_R15D, X86_REG_R15W },
	};
	for (int i = 0; i < 16; i++)
		if (is_one_of(reg, registers[i], 3))
			return i;
	return -1;
}

/* Where it goes is reckoned with as many bits as the code has. */
static int64_t x86_displacement(const cs_insn *insn, cs_mode mode)
{
	int64_t full = insn->detail->x86.operands[0].imm - (int64_t)(insn->address + insn->size);
	return mode == CS_MODE_64 ? full : mode == CS_MODE_32 ? (int32_t)full : (int16_t)full;
}

static struct branch x86_near(const cs_insn *insn, cs_mode mode, enum branch_kind direct)
{
	const cs_x86_op *op = &insn->detail->x86.operands[0];
	bool call = direct == BRANCH_CALL;
	struct branch ret = { .kind = direct };
	if (op->type == X86_OP_IMM) {
		ret.displacement = x86_displacement(insn, mode);
	} else if (op->type == X86_OP_REG) {
		ret.kind = call ? BRANCH_CALL_REGISTER : BRANCH_JUMP_REGISTER;
		ret.reg = (uint8_t)x86_number(op->reg);
	} else {
		ret.kind = call ? BRANCH_CALL_MEMORY : BRANCH_JUMP_MEMORY;
		/* The long form of an absolute address is not asked for: who jumps through it
		 * is no linker's stub. */
		ret.fixed = op->mem.index == X86_REG_INVALID && insn->detail->x86.sib == 0 &&
			    mode != CS_MODE_16 &&
			    ONE_OF(op->mem.base, X86_REG_RIP, X86_REG_EIP, X86_REG_INVALID);
	}
	return ret;
}

static bool x86_loads_stack(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *to = &x86->operands[0], *from = &x86->operands[1];
	int to_reg = to->type == X86_OP_REG ? x86_number(to->reg) : -1;
	int from_reg = from->type == X86_OP_REG ? x86_number(from->reg) : -1;
	switch (insn->id) {
	case X86_INS_POP: return to_reg == 4 && x86->opcode[0] == 0x5c;
	case X86_INS_XCHG: return (to_reg == 4) != (from_reg == 4);
	case X86_INS_MOV:
		return to_reg == 4 && from->type != X86_OP_IMM && from_reg != 5 && from_reg != 4 &&
		       ONE_OF(x86->opcode[0], 0x89, 0x8b);
	default: return false;
	}
}

/* capstone keeps the prefix for itself where it takes movs for SSE's movsd. */
static bool x86_has_rep(const cs_insn *insn)
{
	return memchr(insn->bytes, 0xf2, insn->size) || memchr(insn->bytes, 0xf3, insn->size);
}

static struct branch x86_expected(csh handle, cs_mode mode, const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	struct branch ret = { BRANCH_NONE };
	switch (insn->id) {
	case X86_INS_CALL: return x86_near(insn, mode, BRANCH_CALL);
	case X86_INS_JMP: return x86_near(insn, mode, BRANCH_JUMP);
	case X86_INS_RET: ret.kind = BRANCH_RETURN; return ret;
	case X86_INS_LCALL:
	case X86_INS_LJMP:
	case X86_INS_RETF:
	case X86_INS_RETFQ: ret.kind = BRANCH_FAR; return ret;
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSRET:
	case X86_INS_SYSEXIT: ret.kind = BRANCH_EXCEPTION_RETURN; return ret;
	default: break;
	}
	bool string = ONE_OF(x86->opcode[0], 0x6c, 0x6d, 0x6e, 0x6f, 0xa4, 0xa5, 0xa6, 0xa7, 0xaa,
			     0xab, 0xac, 0xad, 0xae, 0xaf) &&
		      x86->opcode[1] == 0 && x86->operands[0].type != X86_OP_IMM;
	if (ONE_OF(insn->id, X86_INS_LOOP, X86_INS_LOOPE, X86_INS_LOOPNE) ||
	    (cs_insn_group(handle, insn, CS_GRP_JUMP) && x86->operands[0].type == X86_OP_IMM &&
	     insn->id != X86_INS_XBEGIN))
		return x86_near(insn, mode, BRANCH_JUMP_CONDITIONAL);
	if (string && x86_has_rep(insn))
		ret.kind = BRANCH_REPEAT;
	else if (x86_loads_stack(insn))
		ret.kind = BRANCH_STACK_LOAD;
	return ret;
}

/* Bytes in which what matters here is frequent. */
static void random_x86(uint8_t *bytes, size_t size)
{
	static const uint8_t often[] = {
		0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x3e, 0x48, 0x49, 0x41, 0x0f, 0xe8, 0xe9, 0xeb,
		0xff, 0xc3, 0xc2, 0xcf, 0x87, 0x89, 0x8b, 0x5c, 0x94, 0x8d, 0xa4, 0xcb, 0x4c,
	};
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)g_test_rand_int();
	for (size_t i = 0; i < 4; i++)
		if (g_test_rand_bit())
			bytes[i] = often[g_test_rand_int_range(0, G_N_ELEMENTS(often))];
}

/* What no compiler makes, and processors and capstone read in different ways: branches with prefix
 * 67; direct ones with 66, which may cut the target to 16 bits. */
static bool x86_is_odd(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	return x86->prefix[3] == 0x67 ||
	       (x86->operands[0].type == X86_OP_IMM && x86->prefix[2] == 0x66);
}

struct x86_decoder {
	csh handle;
	cs_mode mode;
	cs_insn *insn; /* the last one */
};

static void open_x86(struct x86_decoder *decoder, cs_mode mode)
{
	decoder->mode = mode;
	g_assert_cmpint(cs_open(CS_ARCH_X86, mode, &decoder->handle), ==, CS_ERR_OK);
	cs_option(decoder->handle, CS_OPT_DETAIL, CS_OPT_ON);
	decoder->insn = cs_malloc(decoder->handle);
}

static void close_x86(struct x86_decoder *decoder)
{
	cs_free(decoder->insn, 1);
	cs_close(&decoder->handle);
}

/* Returns the instruction's size, 0 if there is none. */
static size_t compare_x86(struct x86_decoder *decoder, const uint8_t *bytes, size_t size)
{
	cs_insn *insn = decoder->insn;
	const uint8_t *code = bytes;
	uint64_t va = 0x400000;
	bool is_insn = cs_disasm_iter(decoder->handle, &code, &size, &va, insn);
	if (is_insn && !x86_is_odd(insn)) {
		struct branch expected = x86_expected(decoder->handle, decoder->mode, insn);
		struct branch got = branch_x86(bytes, insn->size);
		if (decoder->mode == CS_MODE_16)
			got.displacement = (int16_t)got.displacement;
		compare(insn, got, expected);
	}
	return is_insn ? (size_t)(code - bytes) : 0;
}

static void test_x86_random(gconstpointer data)
{
	struct x86_decoder decoder;
	open_x86(&decoder, (cs_mode)GPOINTER_TO_INT(data));
	for (unsigned i = 0; i < N_RANDOM; i++) {
		uint8_t bytes[15];
		random_x86(bytes, sizeof(bytes));
		compare_x86(&decoder, bytes, sizeof(bytes));
	}
	close_x86(&decoder);
}

/* Code as compilers make it: what this process itself runs. */
static int compare_object(struct dl_phdr_info *info, size_t size G_GNUC_UNUSED, void *decoder)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uint8_t *code = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);
		size_t step = 0;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		for (size_t at = 0; at + 16 < segment->p_memsz && at < REAL_BYTES; at += step)
			step = MAX(compare_x86(decoder, code + at, 15), 1);
	}
	return 0;
}

static void test_x86_real(void)
{
#ifdef __x86_64__
	struct x86_decoder decoder;
	open_x86(&decoder, CS_MODE_64);
	dl_iterate_phdr(compare_object, &decoder);
	close_x86(&decoder);
#else
	g_test_skip("the host's own code is not x86-64");
#endif
}

/* ---- aarch64 ------------------------------------------------------------------ */

static bool aarch64_loads_stack(const cs_insn *insn)
{
	const cs_arm64_op *ops = insn->detail->arm64.operands;
	bool number = insn->id == ARM64_INS_MOV || ops[2].type == ARM64_OP_IMM;
	return ONE_OF(insn->id, ARM64_INS_MOV, ARM64_INS_ADD, ARM64_INS_SUB) && number &&
	       ops[0].type == ARM64_OP_REG && ops[0].reg == ARM64_REG_SP &&
	       ops[1].type == ARM64_OP_REG && !ONE_OF(ops[1].reg, ARM64_REG_SP, ARM64_REG_X29);
}

static struct branch aarch64_expected(const cs_insn *insn)
{
	const cs_arm64 *arm64 = &insn->detail->arm64;
	const cs_arm64_op *last = &arm64->operands[arm64->op_count ? arm64->op_count - 1 : 0];
	struct branch ret = { BRANCH_NONE };
	switch (insn->id) {
	case ARM64_INS_BL: ret.kind = BRANCH_CALL; break;
	case ARM64_INS_B:
		ret.kind = arm64->cc == ARM64_CC_INVALID ? BRANCH_JUMP : BRANCH_JUMP_CONDITIONAL;
		break;
	case ARM64_INS_CBZ:
	case ARM64_INS_CBNZ:
	case ARM64_INS_TBZ:
	case ARM64_INS_TBNZ: ret.kind = BRANCH_JUMP_CONDITIONAL; break;
	case ARM64_INS_BLR: ret.kind = BRANCH_CALL_REGISTER; break;
	case ARM64_INS_BR: ret.kind = BRANCH_JUMP_REGISTER; break;
	case ARM64_INS_RET: ret.kind = BRANCH_RETURN; break;
	case ARM64_INS_ERET: ret.kind = BRANCH_EXCEPTION_RETURN; return ret;
	default: ret.kind = aarch64_loads_stack(insn) ? BRANCH_STACK_LOAD : BRANCH_NONE; return ret;
	}
	if (last->type == ARM64_OP_IMM)
		ret.displacement = last->imm - (int64_t)(insn->address + 4);
	else if (insn->id == ARM64_INS_RET && arm64->op_count == 0)
		ret.reg = 30;
	else if (ONE_OF(last->reg, ARM64_REG_X29, ARM64_REG_X30))
		ret.reg = (uint8_t)(last->reg - ARM64_REG_X29 + 29);
	else if (last->reg == ARM64_REG_XZR)
		ret.reg = 31;
	else
		ret.reg = (uint8_t)(last->reg - ARM64_REG_X0);
	return ret;
}

static uint32_t random_aarch64(void)
{
	static const uint32_t often[] = {
		0x94000000, 0x14000000, 0x54000000, 0x34000000, 0x36000000, 0xd61f0000,
		0xd63f0000, 0xd65f03c0, 0xd69f03e0, 0x910003e0, 0xd10003e0, 0x8b2063ff,
	};
	static const uint32_t masks[] = { 0xfc000000, 0xff000010, 0xfffffc1f, 0xff80001f,
					  0xffffffff };
	uint32_t word = (uint32_t)g_test_rand_int();
	uint32_t base = often[g_test_rand_int_range(0, G_N_ELEMENTS(often))];
	uint32_t mask = masks[g_test_rand_int_range(0, G_N_ELEMENTS(masks))];
	return g_test_rand_bit() ? word : (base & mask) | (word & ~mask);
}

static void test_aarch64_random(void)
{
	csh handle;
	g_assert_cmpint(cs_open(CS_ARCH_ARM64, CS_MODE_ARM, &handle), ==, CS_ERR_OK);
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	cs_insn *insn = cs_malloc(handle);
	for (unsigned i = 0; i < N_RANDOM; i++) {
		uint32_t word = GUINT32_TO_LE(random_aarch64());
		const uint8_t *code = (const uint8_t *)&word;
		size_t size = 4;
		uint64_t va = 0xffff800008000000;
		if (cs_disasm_iter(handle, &code, &size, &va, insn))
			compare(insn, branch_aarch64((const uint8_t *)&word, 4),
				aarch64_expected(insn));
	}
	cs_free(insn, 1);
	cs_close(&handle);
}

/* Pointer authentication, which older capstones do not know: encodings as Arm's manual gives them.
 */
static void test_aarch64_pauth(void)
{
	static const struct {
		uint32_t word;
		struct branch expected;
	} cases[] = {
		{ 0xd61f0a3f, { .kind = BRANCH_JUMP_REGISTER, .reg = 17 } },   /* braaz x17 */
		{ 0xd61f0e3f, { .kind = BRANCH_JUMP_REGISTER, .reg = 17 } },   /* brabz x17 */
		{ 0xd71f0a30, { .kind = BRANCH_JUMP_REGISTER, .reg = 17 } },   /* braa x17, x16 */
		{ 0xd63f091f, { .kind = BRANCH_CALL_REGISTER, .reg = 8 } },    /* blraaz x8 */
		{ 0xd73f0d09, { .kind = BRANCH_CALL_REGISTER, .reg = 8 } },    /* blrab x8, x9 */
		{ 0xd65f0bff, { .kind = BRANCH_RETURN, .reg = 30 } },	       /* retaa */
		{ 0xd65f0fff, { .kind = BRANCH_RETURN, .reg = 30 } },	       /* retab */
		{ 0xd69f0bff, { .kind = BRANCH_EXCEPTION_RETURN, .reg = 0 } }, /* eretaa */
		{ 0xd69f0fff, { .kind = BRANCH_EXCEPTION_RETURN, .reg = 0 } }, /* eretab */
		{ 0xd6bf03e0, { .kind = BRANCH_NONE } },		       /* drps */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		uint32_t word = GUINT32_TO_LE(cases[i].word);
		struct branch got = branch_aarch64((const uint8_t *)&word, 4);
		g_assert_cmpuint(got.kind, ==, cases[i].expected.kind);
		g_assert_cmpuint(got.reg, ==, cases[i].expected.reg);
	}
	g_assert_cmpuint(branch_aarch64((const uint8_t *)"\xc0\x03", 2).kind, ==, BRANCH_NONE);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/branch/x86-64", GINT_TO_POINTER(CS_MODE_64), test_x86_random);
	g_test_add_data_func("/branch/x86-32", GINT_TO_POINTER(CS_MODE_32), test_x86_random);
	g_test_add_data_func("/branch/x86-16", GINT_TO_POINTER(CS_MODE_16), test_x86_random);
	g_test_add_func("/branch/x86-real", test_x86_real);
	g_test_add_func("/branch/aarch64", test_aarch64_random);
	g_test_add_func("/branch/aarch64-pauth", test_aarch64_pauth);
	return g_test_run();
}
