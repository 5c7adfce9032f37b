/* SPDX-License-Identifier: MIT */
/*
 * Instruments code of aarch64. Calls and returns access no memory, so the slot is the stack
 * pointer, which callbacks read.
 */
#include "agent/calls/instrument.h"

#include "agent/calls/follow_tasks.h"
#include "agent/tasks/tasks.h"

#define EL1	     1
#define SPSR_AARCH32 (UINT64_C(1) << 4)
#define SCTLR_M	     1
#define VECTORS_SIZE 0x800
#define VECTOR_SIZE  0x80
#define VIRT_RAM     0x40000000 /* of QEMU's machine virt: begins there if it has no firmware */
#define IP0	     16		/* registers that the stubs of linkers use for jumps */
#define IP1	     17

static unsigned find_rank(uint64_t spsr)
{
	if (spsr & SPSR_AARCH32)
		return (spsr & 15) == 0 ? 0 : EL1;
	return spsr >> 2 & 3;
}

/* ---- calls and returns ------------------------------------------------------ */

static void track_call_to(struct tracer *tracer, unsigned vcpu, unsigned rank, uint64_t to)
{
	track_call(tracer->tracker, rank, vcpu_value(vcpu, A64_SP), to, tracer_time(tracer, vcpu));
}

static void on_call(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place to = place_unpack(data);
	if (!tracer)
		return;
	track_call_to(tracer, vcpu, to.rank, to.va);
	tracer_leave(vcpu);
}

static void on_call_relative(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct site site = site_unpack(data);
	if (!tracer)
		return;
	track_call_to(tracer, vcpu, site.rank, site_target(&site, vcpu_value(vcpu, A64_PC)));
	tracer_leave(vcpu);
}

static void on_call_register(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place number = place_unpack(data);
	if (!tracer)
		return;
	track_call_to(tracer, vcpu, number.rank,
		      vcpu_arch()->code_register(vcpu, (unsigned)number.va));
	tracer_leave(vcpu);
}

static void on_return(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place number = place_unpack(data);
	if (!tracer)
		return;
	uint64_t slot = vcpu_value(vcpu, A64_SP), time = tracer_time(tracer, vcpu);
	if (!track_expected_return(tracer->tracker, number.rank, slot, time))
		track_return(tracer->tracker, number.rank, slot,
			     vcpu_arch()->code_register(vcpu, (unsigned)number.va), time);
	tracer_leave(vcpu);
}

/* ---- jumps -------------------------------------------------------------------- */

static void on_jump_stub(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place number = place_unpack(data);
	if (!tracer)
		return;
	track_jump(tracer->tracker, number.rank,
		   vcpu_arch()->code_register(vcpu, (unsigned)number.va),
		   tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

/* ---- entry and exit of the kernel --------------------------------------------- */

/* An exception handler begins. Code of the vector has already lowered the stack pointer. */
static void on_entry(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place at = place_unpack(data);
	if (!tracer)
		return;
	tracer->has_system |= at.va != 0;
	uint64_t slot = vcpu_value(vcpu, A64_SP);
	unsigned from = find_rank(vcpu_value(vcpu, A64_SPSR_EL1));
	/* ESR_EL1 tells a system call from other exceptions. */
	bool is_call = (vcpu_value(vcpu, A64_ESR_EL1) >> 26 & 0x3f) == 0x15;
	track_entry(tracer->tracker, from == 0 && is_call ? ENTRY_SYSCALL : ENTRY_INTERRUPT,
		    at.rank, slot, at.va, from, vcpu_value(vcpu, A64_ELR_EL1),
		    from == 0 ? vcpu_value(vcpu, A64_SP_EL0) : slot, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

static void on_exception_return(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	unsigned to = find_rank(vcpu_value(vcpu, A64_SPSR_EL1));
	uint64_t slot = vcpu_value(vcpu, A64_SP), pc = vcpu_value(vcpu, A64_ELR_EL1);
	uint64_t sp = to == 0 ? vcpu_value(vcpu, A64_SP_EL0) : slot;
	if (to == 0 && !call_tracker_resumes_user(tracer->tracker, pc, sp))
		follow_space(tracer, vcpu_get(vcpu));
	track_exit(tracer->tracker, place_unpack(data).rank, slot, to, pc, sp,
		   tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

/* ---- translation -------------------------------------------------------------- */

static void register_with_regs(const struct insn *insn, qemu_plugin_vcpu_udata_cb callback,
			       void *data)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn->qemu, callback, QEMU_PLUGIN_CB_R_REGS, data);
}

static void instrument_call(const struct block *block, const struct insn *insn)
{
	uint64_t target = insn_target(insn);
	void *data = place_pack(target, block->rank);
	if (insn->branch.displacement == 0)
		return; /* code that reads its own address */
	if (block->rank > 0)
		register_with_regs(insn, on_call, data);
	else if (site_pack(block, insn, &data))
		register_with_regs(insn, on_call_relative, data);
}

static void instrument_insn(const struct block *block, const struct insn *insn)
{
	void *rank = place_pack(0, block->rank), *reg = place_pack(insn->branch.reg, block->rank);
	switch (insn->branch.kind) {
	case BRANCH_CALL: instrument_call(block, insn); break;
	case BRANCH_CALL_REGISTER: register_with_regs(insn, on_call_register, reg); break;
	case BRANCH_RETURN: register_with_regs(insn, on_return, reg); break;
	case BRANCH_JUMP: instrument_jump(block, insn); break;
	case BRANCH_JUMP_REGISTER:
		if (block_covers(block, insn->va))
			instrument_jump_register(block, insn);
		else if (insn->branch.reg == IP0 || insn->branch.reg == IP1)
			register_with_regs(insn, on_jump_stub, reg);
		break;
	case BRANCH_EXCEPTION_RETURN:
		if (block->rank == EL1)
			register_with_regs(insn, on_exception_return, rank);
		break;
	case BRANCH_STACK_LOAD: instrument_stack_load(block, insn); break;
	case BRANCH_NONE:
	case BRANCH_CALL_MEMORY:
	case BRANCH_JUMP_MEMORY:
	case BRANCH_JUMP_CONDITIONAL:
	case BRANCH_FAR:
	case BRANCH_REPEAT:
	default: break;
	}
}

/* True if this is a vector of an unknown system. For Linux the client sends the entry functions. */
static bool is_vector(const struct block *block)
{
	uint64_t vectors = 0;
	vcpu_read(vcpu_current(), A64_VBAR_EL1, &vectors);
	return !tasks_are_known() && vectors != 0 && block->va >= vectors &&
	       block->va - vectors < VECTORS_SIZE && block->va % VECTOR_SIZE == 0;
}

void instrument_aarch64(struct block *block)
{
	uint64_t cpsr = 0, sctlr = SCTLR_M;
	vcpu_read(vcpu_current(), A64_CPSR, &cpsr);
	vcpu_read(vcpu_current(), A64_SCTLR_EL1, &sctlr);
	if (cpsr & SPSR_AARCH32)
		return; /* another instruction set */
	if (block->rank >= EL1 && !(sctlr & SCTLR_M))
		instrument_begin(block, block->va == 0 || block->va == VIRT_RAM);
	if (block->rank == EL1 && block->flags & VMS_AGENT_FUNCTION_ENTRY)
		qemu_plugin_register_vcpu_tb_exec_cb(block->tb, on_entry, QEMU_PLUGIN_CB_R_REGS,
						     place_pack(block->va, block->rank));
	else if (block->rank == EL1 && is_vector(block))
		qemu_plugin_register_vcpu_tb_exec_cb(block->tb, on_entry, QEMU_PLUGIN_CB_R_REGS,
						     place_pack(0, block->rank));
	instrument_insns(block, branch_aarch64, instrument_insn);
}
