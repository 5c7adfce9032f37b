/* SPDX-License-Identifier: MIT */
/*
 * Calls and frame records of aarch64 (Procedure Call Standard for the Arm 64-bit Architecture). A
 * function that calls nothing has no frame record: its return address is in x30 only. The code of
 * the function shows whether that is so.
 */
#include "arch/aarch64.h"

#define INSN_BYTES 4u

static bool read_insn(const struct vms_reader *virt, uint64_t va, uint32_t *ret)
{
	return virt->read(virt->data, va, ret, sizeof(*ret));
}

static bool is_bl(uint32_t insn)
{
	return insn >> 26 == 0x25;
}

/* True for BLR, BLRAA and the other forms of BLR that authenticate the pointer. */
static bool is_blr(uint32_t insn)
{
	return (insn & 0xfffffc1f) == 0xd63f0000 || (insn & 0xfefff800) == 0xd63f0800;
}

bool vms_aarch64_is_after_call(const struct vms_reader *virt, uint64_t pc)
{
	uint32_t insn;
	return read_insn(virt, pc - INSN_BYTES, &insn) && (is_bl(insn) || is_blr(insn));
}

bool vms_aarch64_adrp(uint32_t insn, uint64_t va, unsigned reg, uint64_t *page)
{
	const uint64_t pages =
		vms_aarch64_field(insn, 23, 5) << 2 | vms_aarch64_field(insn, 30, 29);
	if ((insn & 0x9f000000) != 0x90000000 || vms_aarch64_field(insn, 4, 0) != reg - X0)
		return false;
	/* `pages` is a signed number of 21 bits. */
	*page = (va & ~vms_aarch64_low_bits(12)) + ((uint64_t)((int64_t)(pages << 43) >> 43) << 12);
	return true;
}

/*
 * If there is an entry of a procedure linkage table at `va`, returns the function that it jumps to;
 * else `va`.
 */
static uint64_t follow_plt(const struct vms_reader *virt, uint64_t va)
{
	const uint32_t bti_c = 0xd503245f;
	uint32_t code[3];
	uint64_t page, target;
	if (!virt->read(virt->data, va, code, sizeof(code)))
		return va;
	uint64_t at = va;
	const uint32_t *insn = code;
	if (*insn == bti_c) {
		insn++;
		at += INSN_BYTES;
	}
	/* adrp x16, PAGE; ldr x17, [x16, OFFSET] */
	if (!vms_aarch64_adrp(insn[0], at, X0 + 16, &page) || (insn[1] & 0xffc003ff) != 0xf9400211)
		return va;
	const uint64_t slot = page + vms_aarch64_field(insn[1], 21, 10) * sizeof(target);
	return virt->read(virt->data, slot, &target, sizeof(target)) ? target : va;
}

/*
 * Finds the function that was called by the instruction before the return address `pc`. False if
 * that instruction is no direct call.
 */
static bool find_called_function(const struct vms_reader *virt, uint64_t pc, uint64_t *ret)
{
	uint32_t insn;
	if (!read_insn(virt, pc - INSN_BYTES, &insn) || !is_bl(insn))
		return false;
	const int64_t offset = (int32_t)(insn << 6) >> 4;
	*ret = follow_plt(virt, pc - INSN_BYTES + (uint64_t)offset);
	return true;
}

/* True if the instruction stores x30 on the stack. */
static bool saves_return_address(uint32_t insn)
{
	const bool stp = (insn & 0xfe4003e0) == 0xa80003e0; /* with base SP */
	const bool str = (insn & 0xffe00fff) == 0xf8000ffe; /* x30, before it moves SP */
	return str || (stp && (vms_aarch64_field(insn, 4, 0) == 30 ||
			       vms_aarch64_field(insn, 14, 10) == 30));
}

/*
 * True if the innermost function will return to x30 (`link`). That is certain if a direct call just
 * before `link` has called this function, and the function has neither saved x30 nor called
 * anything up to `pc`. It is a leaf function then, or any function at its begin.
 */
static bool is_in_leaf(const struct vms_reader *virt, uint64_t pc, uint64_t link)
{
	enum { LEAF_INSNS = 512 };
	uint32_t code[LEAF_INSNS];
	uint64_t start;
	if (!find_called_function(virt, link, &start) || start > pc ||
	    (pc - start) % INSN_BYTES != 0 || pc - start > sizeof(code) ||
	    !virt->read(virt->data, start, code, pc - start))
		return false;
	for (size_t i = 0; i < (pc - start) / INSN_BYTES; i++)
		if (is_bl(code[i]) || is_blr(code[i]) || saves_return_address(code[i]))
			return false;
	return true;
}

/*
 * True if `pc` is inside a prologue or an epilogue: x30 is the function's return address there, but
 * x29 is not the function's frame pointer.
 */
static bool is_at_edge(const struct vms_reader *virt, uint64_t pc)
{
	const uint32_t ret = 0xd65f03c0, autiasp = 0xd50323bf, autibsp = 0xd50323ff;
	uint32_t insn;
	return read_insn(virt, pc, &insn) &&
	       (insn == ret || (insn & 0xfffffbff) == 0xd65f0bff || insn == autiasp ||
		insn == autibsp || (insn & 0xffc003ff) == 0x910003fd /* add x29, sp, … */);
}

bool vms_aarch64_step_frameless(struct vms_regs *regs, const struct vms_reader *virt)
{
	const uint64_t pc = regs->value[PC];
	const uint64_t link = vms_aarch64_strip_pac(regs, regs->value[X30]);
	if (!vms_regs_have(regs, X30) ||
	    !((is_at_edge(virt, pc) && vms_aarch64_is_after_call(virt, link)) ||
	      is_in_leaf(virt, pc, link)))
		return false;
	vms_regs_forget(regs, X30);
	vms_regs_set(regs, PC, link);
	return true;
}

bool vms_aarch64_step_frame(struct vms_regs *regs, const struct vms_reader *virt)
{
	uint64_t record[2]; /* the caller's frame pointer, the return address */
	const uint64_t fp = regs->value[X29];
	if (fp == 0 || fp % 8 != 0 || !virt->read(virt->data, fp, record, sizeof(record)))
		return false;
	if (record[1] == 0)
		return false;
	vms_regs_forget(regs, X30);
	vms_regs_set(regs, X29, record[0]);
	vms_regs_set(regs, SP, fp + sizeof(record));
	vms_regs_set(regs, PC, vms_aarch64_strip_pac(regs, record[1]));
	return true;
}
