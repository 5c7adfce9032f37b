/* SPDX-License-Identifier: MIT */
/*
 * The pointer that QEMU passes to a callback contains all that the callback needs of its
 * instruction. So nothing must be freed when QEMU drops the code.
 *
 * QEMU reuses a block if the same memory is executed at another virtual address, as programs and
 * libraries are. So code of programs is instrumented wherever some page has a place at the same
 * offset, and the callback computes the address. Other code has only one address.
 */
#include "agent/probes/instrument.h"

#include "agent/probes/return_marks.h"
#include "agent/probes/visit.h"

/* What a callback gets of its instruction. */
struct site {
	int64_t va : 57;    /* of a program's instruction: its offset in a page */
	unsigned size : 4;  /* bytes */
	bool is_offset : 1; /* `va` is one */
	bool traps : 1;	    /* see struct pending */
	bool repeats : 1;
};

union packed_site {
	struct site site;
	void *data;
};

_Static_assert(sizeof(struct site) == sizeof(void *), "a site fits into QEMU's user data");

/* ---- callbacks -------------------------------------------------------------------------- */

static uint64_t read_pc(unsigned vcpu)
{
	return vcpu_value(vcpu, vcpu_arch()->pc);
}

/* In a block the program counter is that of the block, or of an instruction before this one. */
static void on_place(unsigned vcpu, void *data)
{
	const union packed_site packed = { .data = data };
	struct pending insn = {
		.va = (uint64_t)(int64_t)packed.site.va,
		.traps = packed.site.traps,
		.repeats = packed.site.repeats,
	};
	if (packed.site.is_offset) {
		const uint64_t pc = read_pc(vcpu);
		insn.va = pc + ((insn.va - pc) & 4095);
	}
	insn.next = insn.va + packed.site.size;
	visit_before(vcpu, &insn);
}

static void on_next(unsigned vcpu, __attribute__((unused)) void *data)
{
	visit_after(vcpu);
}

static void on_block(unsigned vcpu, __attribute__((unused)) void *data)
{
	visit_block(vcpu, read_pc(vcpu));
}

/* `data` is the address of the block; NULL: of a program, whose address the vCPU has. */
static void on_return(unsigned vcpu, void *data)
{
	visit_return(vcpu, data ? (uint64_t)(uintptr_t)data : read_pc(vcpu));
}

/* ---- translation ------------------------------------------------------------------------- */

/* True if the purpose of an instruction is to enter an exception, like a system call. */
static bool is_trap(const uint8_t *bytes, size_t size)
{
	if (vcpu_arch() == &arch_aarch64)
		return size == 4 && bytes[3] == 0xd4;
	return size > 0 && (bytes[0] == 0xcc || bytes[0] == 0xcd || bytes[0] == 0xf1);
}

static void *pack_site(const struct qemu_plugin_insn *insn, uint64_t va, bool is_offset)
{
	uint8_t bytes[16];
	const size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
	const union packed_site packed = { .site = {
						   .va = (int64_t)(is_offset ? va & 4095 : va),
						   .size = size & 15,
						   .is_offset = is_offset,
						   .traps = is_trap(bytes, size),
						   .repeats =
							   vcpu_arch()->branch(bytes, size).kind ==
							   BRANCH_REPEAT,
					   } };
	return packed.data;
}

/* True if the block belongs to a program, not to a kernel or firmware. */
static bool is_of_program(const struct qemu_plugin_tb *tb)
{
	struct vcpu *vcpu = vcpu_current();
	return (int64_t)qemu_plugin_tb_vaddr(tb) >= 0 && vcpu && vcpu_arch()->rank(vcpu) == 0;
}

/* Adds a callback for the case that a call returns to this block. */
static void watch_returns(struct qemu_plugin_tb *tb, bool is_program)
{
	const uint64_t va = qemu_plugin_tb_vaddr(tb);
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_return, QEMU_PLUGIN_CB_R_REGS,
						  QEMU_PLUGIN_COND_NE, returns_mark(va), 0,
						  is_program ? NULL : (void *)(uintptr_t)va);
}

void probes_instrument(struct qemu_plugin_tb *tb)
{
	const struct plan *plan = atomic_load(&visit_plan);
	if (!plan || plan->n == 0)
		return;
	const bool is_program = is_of_program(tb);
	const size_t n = qemu_plugin_tb_n_insns(tb);
	bool was_place = false;
	if (plan->has_after)
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_block, QEMU_PLUGIN_CB_R_REGS,
							  QEMU_PLUGIN_COND_NE, visit_pending, 0,
							  NULL);
	if (plan->has_calls)
		watch_returns(tb, is_program);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint64_t va = qemu_plugin_insn_vaddr(insn);
		if (was_place && plan->has_after)
			qemu_plugin_register_vcpu_insn_exec_cond_cb(
				insn, on_next, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_COND_NE,
				visit_pending, 0, NULL);
		was_place = is_program ? plan_has_offset(plan, va)
				       : plan_find(plan, va).entries != NULL;
		if (was_place)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_place,
							       QEMU_PLUGIN_CB_R_REGS,
							       pack_site(insn, va, is_program));
	}
}
