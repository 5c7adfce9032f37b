/* SPDX-License-Identifier: MIT */
/*
 * Switch tables as gcc and clang make them for aarch64, with entries of 1, 2, 4 or 8 bytes:
 *
 *	cmp  w0, #5; b.hi default; adrp x1, table; add x1, x1, :lo12:table
 *	ldrb w0, [x1, w0, uxtw]; adr x1, base; add x0, x1, w0, sxtb #2; br x0
 */
#include "cfg/switch_table.h"

/* Returns the number of a general register of any width. */
static int get_number(unsigned reg)
{
	if (reg >= ARM64_REG_W0 && reg <= ARM64_REG_W30)
		return (int)(reg - ARM64_REG_W0);
	if (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28)
		return (int)(reg - ARM64_REG_X0);
	return reg == ARM64_REG_X29 ? 29 : reg == ARM64_REG_X30 ? 30 : VMS_NOT_GENERAL;
}

/* True for calls, which may change x0 to x18 and x30. */
static bool is_clobbered(const struct vms_path *path, const cs_insn *insn, int number)
{
	(void)path;
	return (insn->id == ARM64_INS_BL || insn->id == ARM64_INS_BLR) &&
	       (number <= 18 || number == 30);
}

static const struct vms_path_registers registers = { get_number, is_clobbered };

/* Finds the constant that is in a register at the step `from`, set by adr, or by adrp and add. */
static bool find_constant(const struct vms_path *path, unsigned from, int number, uint64_t *ret)
{
	uint64_t added = 0;
	for (unsigned adds = 0; adds < 2; adds++) {
		unsigned step;
		const cs_insn *insn =
			vms_path_find_definition(path, &registers, from, number, &step);
		const cs_arm64_op *ops = insn ? insn->detail->arm64.operands : NULL;
		if (ops && (insn->id == ARM64_INS_ADR || insn->id == ARM64_INS_ADRP)) {
			*ret = (uint64_t)ops[1].imm + added;
			return true;
		}
		if (!ops || insn->id != ARM64_INS_ADD || ops[2].type != ARM64_OP_IMM)
			return false;
		added += (uint64_t)ops[2].imm << ops[2].shift.value;
		number = get_number(ops[1].reg);
		from = step;
	}
	return false;
}

/*
 * Returns how many values, from 0, are possible after a comparison with `limit` and a jump. 0 if
 * this is no upper limit.
 */
static uint64_t count_values(arm64_cc condition, bool jumped, uint64_t limit)
{
	switch ((unsigned)condition) {
	case ARM64_CC_HI: return jumped ? 0 : limit + 1;
	case ARM64_CC_LS: return jumped ? limit + 1 : 0;
	case ARM64_CC_HS: return jumped ? 0 : limit;
	case ARM64_CC_LO: return jumped ? limit : 0;
	default: return 0;
	}
}

/*
 * Follows the index back over an instruction that sets it. Sets *n if the instruction limits the
 * index. False if the value is unknown.
 */
static bool follow_index(const cs_insn *insn, int *index, uint64_t *n)
{
	const cs_arm64_op *ops = insn->detail->arm64.operands;
	*n = 0;
	if (insn->id == ARM64_INS_AND && ops[2].type == ARM64_OP_IMM && ops[2].imm >= 0) {
		*n = (uint64_t)ops[2].imm + 1;
		return true;
	}
	if ((insn->id != ARM64_INS_MOV && insn->id != ARM64_INS_UXTB &&
	     insn->id != ARM64_INS_UXTH && insn->id != ARM64_INS_UXTW) ||
	    ops[1].type != ARM64_OP_REG)
		return false;
	*index = get_number(ops[1].reg);
	return *index != VMS_NOT_GENERAL;
}

/* Returns how many entries the table has that is read at the step `from`, or 0 if unknown. */
static uint64_t find_bound(const struct vms_path *path, unsigned from, int index)
{
	arm64_cc condition = ARM64_CC_INVALID;
	bool jumped = false;
	for (unsigned i = from + 1; i < path->n; i++) {
		const cs_insn *insn = vms_path_decode(path, i);
		if (!insn)
			return 0;
		const cs_arm64_op *ops = insn->detail->arm64.operands;
		uint64_t n = 0;
		if (insn->id == ARM64_INS_CMP && ops[1].type == ARM64_OP_IMM &&
		    get_number(ops[0].reg) == index)
			n = count_values(condition, jumped, (uint64_t)ops[1].imm);
		else if (insn->id == ARM64_INS_B) {
			condition = insn->detail->arm64.cc;
			jumped = path->steps[i].jumped;
		} else if (vms_path_writes(path, &registers, insn, index) &&
			   !follow_index(insn, &index, &n))
			return 0;
		if (n)
			return n;
	}
	return 0;
}

/* Sets the size and the sign of entries by the instruction that loads one. */
static bool set_entry_format(const cs_insn *insn, struct vms_switch_table *ret)
{
	const arm64_reg to = insn->detail->arm64.operands[0].reg;
	switch (insn->id) {
	case ARM64_INS_LDRB: ret->entry_size = 1; break;
	case ARM64_INS_LDRSB: ret->entry_size = 1, ret->is_signed = true; break;
	case ARM64_INS_LDRH: ret->entry_size = 2; break;
	case ARM64_INS_LDRSH: ret->entry_size = 2, ret->is_signed = true; break;
	case ARM64_INS_LDRSW: ret->entry_size = 4, ret->is_signed = true; break;
	case ARM64_INS_LDR:
		ret->entry_size = to >= ARM64_REG_W0 && to <= ARM64_REG_W30 ? 4 : 8;
		break;
	default: return false;
	}
	return true;
}

/* Analyses the load [table, index] that sets a register. */
static bool analyse_load(const struct vms_path *path, unsigned from, int number,
			 struct vms_switch_table *ret)
{
	unsigned step;
	const cs_insn *insn = vms_path_find_definition(path, &registers, from, number, &step);
	if (!insn || !set_entry_format(insn, ret) ||
	    insn->detail->arm64.operands[1].type != ARM64_OP_MEM)
		return false;
	const arm64_op_mem mem = insn->detail->arm64.operands[1].mem;
	if (get_number(mem.index) == VMS_NOT_GENERAL || mem.disp ||
	    !find_constant(path, step, get_number(mem.base), &ret->va))
		return false;
	ret->n = find_bound(path, step, get_number(mem.index));
	return ret->n > 0;
}

static bool is_sign_extended(arm64_extender extender)
{
	return extender == ARM64_EXT_SXTB || extender == ARM64_EXT_SXTH ||
	       extender == ARM64_EXT_SXTW || extender == ARM64_EXT_SXTX;
}

bool vms_switch_table_find_aarch64(const struct vms_path *path, struct vms_switch_table *ret)
{
	const cs_insn *insn = vms_path_decode(path, 0);
	unsigned step;
	*ret = (struct vms_switch_table) { 0 };
	if (!insn || insn->detail->arm64.op_count != 1)
		return false;
	const int number = get_number(insn->detail->arm64.operands[0].reg);
	insn = vms_path_find_definition(path, &registers, 0, number, &step);
	if (!insn)
		return false;
	if (insn->id != ARM64_INS_ADD || insn->detail->arm64.operands[2].type != ARM64_OP_REG)
		return analyse_load(path, 0, number, ret);
	const cs_arm64_op base = insn->detail->arm64.operands[1];
	const cs_arm64_op entry = insn->detail->arm64.operands[2];
	ret->is_relative = true;
	ret->shift = entry.shift.value;
	if (!find_constant(path, step, get_number(base.reg), &ret->base) ||
	    !analyse_load(path, step, get_number(entry.reg), ret))
		return false;
	ret->is_signed |= is_sign_extended(entry.ext);
	return true;
}
