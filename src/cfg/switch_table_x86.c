/* SPDX-License-Identifier: MIT */
/*
 * Switch tables as gcc and clang make them for x86:
 *
 *	cmp    edi, 5; ja default; jmp [table + rdi*8]		(or by mov to a register)
 *	cmp    edi, 5; ja default; lea rdx, [rip + table]
 *	movsxd rax, [rdx + rdi*4]; add rax, rdx; jmp rax
 */
#include "cfg/switch_table.h"

#define MAX_SHIFT 3 /* of an index: an entry of a table has 8 bytes at most */

/* Returns the number of a general register of any width. */
static int get_number(unsigned reg)
{
	static const x86_reg widths[][4] = {
		{ X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL },
		{ X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL },
		{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL },
		{ X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL },
		{ X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL },
		{ X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL },
		{ X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL },
		{ X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL },
		{ X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B },
		{ X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B },
		{ X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B },
		{ X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B },
		{ X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B },
		{ X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B },
		{ X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B },
		{ X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B },
	};
	for (int i = 0; i < (int)G_N_ELEMENTS(widths); i++)
		for (unsigned j = 0; j < G_N_ELEMENTS(widths[i]); j++)
			if (widths[i][j] == reg)
				return i;
	return VMS_NOT_GENERAL;
}

/* True for calls, which may change rax, rcx, rdx, rsi, rdi and r8 to r11. */
static bool is_clobbered(const struct vms_path *path, const cs_insn *insn, int number)
{
	return cs_insn_group(path->decoder->handle, insn, CS_GRP_CALL) &&
	       (number <= 2 || (number >= 6 && number <= 11));
}

static const struct vms_path_registers registers = { get_number, is_clobbered };

/* Computes the address of a memory operand that depends on no register but rip. */
static bool fixed_address(const cs_insn *insn, const x86_op_mem *mem, uint64_t base, uint64_t *ret)
{
	if (mem->segment != X86_REG_INVALID && mem->segment != X86_REG_DS)
		return false;
	if (mem->base == X86_REG_RIP)
		*ret = base + insn->address + insn->size + (uint64_t)mem->disp;
	else if (mem->base == X86_REG_INVALID)
		*ret = (uint64_t)mem->disp;
	else
		return false;
	return true;
}

/* Finds the constant that is in a register at the step `from`. */
static bool find_constant(const struct vms_path *path, unsigned from, int number, uint64_t *ret)
{
	unsigned step;
	const cs_insn *insn = vms_path_find_definition(path, &registers, from, number, &step);
	const cs_x86_op *ops = insn ? insn->detail->x86.operands : NULL;
	if (!ops || insn->detail->x86.op_count != 2)
		return false;
	if (insn->id == X86_INS_LEA && ops[1].mem.index == X86_REG_INVALID)
		return fixed_address(insn, &ops[1].mem, path->decoder->base, ret);
	if ((insn->id == X86_INS_MOV || insn->id == X86_INS_MOVABS) && ops[1].type == X86_OP_IMM) {
		*ret = ops[0].size == 4 ? (uint32_t)ops[1].imm : (uint64_t)ops[1].imm;
		return true;
	}
	return false;
}

/* ---- the bound of the index ------------------------------------------------- */

/* The index of a table: a register, or the memory that the register was loaded from. */
struct index {
	int number; /* VMS_NOT_GENERAL: it is `memory` */
	x86_op_mem memory;
};

static bool is_index(const struct index *index, const cs_x86_op *op)
{
	if (index->number != VMS_NOT_GENERAL)
		return op->type == X86_OP_REG && get_number(op->reg) == index->number;
	return op->type == X86_OP_MEM && op->mem.base == index->memory.base &&
	       op->mem.index == index->memory.index && op->mem.disp == index->memory.disp &&
	       op->mem.segment == index->memory.segment;
}

/*
 * Returns how many values, from 0, are possible after a comparison with `limit` and a jump. 0 if
 * this is no upper limit.
 */
static uint64_t count_values(unsigned jump, bool jumped, uint64_t limit)
{
	switch (jump) {
	case X86_INS_JA: return jumped ? 0 : limit + 1;
	case X86_INS_JBE: return jumped ? limit + 1 : 0;
	case X86_INS_JAE: return jumped ? 0 : limit;
	case X86_INS_JB: return jumped ? limit : 0;
	default: return 0;
	}
}

/*
 * Follows the index back over an instruction that sets it. Sets *n if the instruction limits the
 * index. False if the value is unknown.
 */
static bool follow_index(const cs_insn *insn, struct index *index, uint64_t *n)
{
	const cs_x86_op *from = &insn->detail->x86.operands[1];
	*n = 0;
	if (insn->id == X86_INS_AND && from->type == X86_OP_IMM && from->imm >= 0) {
		*n = (uint64_t)from->imm + 1;
		return true;
	}
	if (insn->id != X86_INS_MOV && insn->id != X86_INS_MOVZX)
		return false;
	if (from->type == X86_OP_REG)
		index->number = get_number(from->reg);
	else if (from->type == X86_OP_MEM)
		*index = (struct index) { VMS_NOT_GENERAL, from->mem };
	return from->type == X86_OP_REG ? index->number != VMS_NOT_GENERAL
					: from->type == X86_OP_MEM;
}

/* Returns how many entries the table has that is read at the step `from`, or 0 if unknown. */
static uint64_t find_bound(const struct vms_path *path, unsigned from, struct index index)
{
	unsigned jump = X86_INS_INVALID;
	bool jumped = false;
	for (unsigned i = from + 1; i < path->n; i++) {
		const cs_insn *insn = vms_path_decode(path, i);
		if (!insn)
			return 0;
		const cs_x86_op *ops = insn->detail->x86.operands;
		uint64_t n = 0;
		if (insn->id == X86_INS_CMP && ops[1].type == X86_OP_IMM && is_index(&index, ops))
			n = count_values(jump, jumped, (uint64_t)ops[1].imm);
		else if (cs_insn_group(path->decoder->handle, insn, CS_GRP_JUMP)) {
			jump = insn->id;
			jumped = path->steps[i].jumped;
		} else if (index.number != VMS_NOT_GENERAL &&
			   vms_path_writes(path, &registers, insn, index.number) &&
			   !follow_index(insn, &index, &n))
			return 0;
		if (n)
			return n;
	}
	return 0;
}

/* ---- tables -------------------------------------------------------------------- */

/*
 * Analyses a load [register] at `step`, whose address was computed as gcc does without
 * optimisation: shl index, 3; add register, table.
 */
static bool analyse_computed_load(const struct vms_path *path, unsigned step, const cs_x86_op *op,
				  struct vms_switch_table *ret)
{
	const int number = get_number(op->mem.base);
	const cs_insn *insn = vms_path_find_definition(path, &registers, step, number, &step);
	if (!insn || insn->id != X86_INS_ADD || op->mem.disp)
		return false;
	const cs_x86_op added = insn->detail->x86.operands[1];
	ret->va = (uint64_t)added.imm;
	if (added.type != X86_OP_IMM &&
	    (added.type != X86_OP_REG ||
	     !find_constant(path, step, get_number(added.reg), &ret->va)))
		return false;
	insn = vms_path_find_definition(path, &registers, step, number, &step);
	if (!insn || (insn->id != X86_INS_SHL && insn->id != X86_INS_SAL))
		return false;
	const cs_x86_op shift = insn->detail->x86.operands[1];
	if (shift.type != X86_OP_IMM || shift.imm < 0 || shift.imm > MAX_SHIFT ||
	    op->size != 1 << shift.imm)
		return false;
	ret->n = find_bound(path, step, (struct index) { .number = number });
	return ret->n > 0;
}

/* Analyses a load of an entry at `step`: [base + index*size + displacement]. */
static bool analyse_load(const struct vms_path *path, unsigned step, const cs_x86_op *op,
			 struct vms_switch_table *ret)
{
	const x86_op_mem mem = op->mem;
	uint64_t base = 0;
	struct index index = { .number = get_number(mem.index) };
	ret->entry_size = op->size;
	if (op->type == X86_OP_MEM && mem.index == X86_REG_INVALID)
		return analyse_computed_load(path, step, op, ret);
	if (op->type != X86_OP_MEM || index.number == VMS_NOT_GENERAL || mem.scale != op->size ||
	    (mem.segment != X86_REG_INVALID && mem.segment != X86_REG_DS))
		return false;
	if (mem.base != X86_REG_INVALID && !find_constant(path, step, get_number(mem.base), &base))
		return false;
	ret->va = base + (uint64_t)mem.disp;
	ret->n = find_bound(path, step, index);
	return ret->n > 0;
}

/* Analyses the load that sets a register. */
static bool analyse_definition(const struct vms_path *path, unsigned from, int number, unsigned id,
			       struct vms_switch_table *ret)
{
	unsigned step;
	const cs_insn *insn = vms_path_find_definition(path, &registers, from, number, &step);
	if (!insn || insn->id != id)
		return false;
	const cs_x86_op load = insn->detail->x86.operands[1];
	return analyse_load(path, step, &load, ret);
}

/* Analyses `add a, b`: one is the base address of the entries, the other one an entry. */
static bool analyse_sum(const struct vms_path *path, unsigned step, int a, int b,
			struct vms_switch_table *ret)
{
	ret->is_signed = ret->is_relative = true;
	return (find_constant(path, step, b, &ret->base) &&
		analyse_definition(path, step, a, X86_INS_MOVSXD, ret)) ||
	       (find_constant(path, step, a, &ret->base) &&
		analyse_definition(path, step, b, X86_INS_MOVSXD, ret));
}

bool vms_switch_table_find_x86(const struct vms_path *path, struct vms_switch_table *ret)
{
	const cs_insn *insn = vms_path_decode(path, 0);
	unsigned step;
	*ret = (struct vms_switch_table) { 0 };
	if (!insn || insn->detail->x86.op_count != 1)
		return false;
	const cs_x86_op op = insn->detail->x86.operands[0];
	if (op.type == X86_OP_MEM)
		return analyse_load(path, 0, &op, ret);
	const int number = op.type == X86_OP_REG ? get_number(op.reg) : VMS_NOT_GENERAL;
	insn = vms_path_find_definition(path, &registers, 0, number, &step);
	if (!insn)
		return false;
	if (insn->id != X86_INS_ADD || insn->detail->x86.operands[1].type != X86_OP_REG)
		return analyse_definition(path, 0, number, X86_INS_MOV, ret);
	return analyse_sum(path, step, number, get_number(insn->detail->x86.operands[1].reg), ret);
}
