/* SPDX-License-Identifier: MIT */
#include "agent/calls/instrument.h"

#include "agent/calls/callees.h"
#include "agent/calls/wait_for_client.h"

bool block_covers(const struct block *block, uint64_t va)
{
	return va >= block->trace->first_function && va <= block->trace->last_function;
}

bool site_pack(const struct block *block, const struct insn *insn, void **data)
{
	int64_t displacement = (int64_t)(insn_target(insn) - block->va);
	union {
		struct site site;
		void *data;
	} packed = { .site = {
			     .displacement = (int32_t)displacement,
			     .rank = block->rank & 3,
			     .begin = block->va & 0xfff,
			     .offset = (insn->va - block->va) & 0x1fff,
		     } };
	*data = packed.data;
	return displacement == (int32_t)displacement;
}

/* QEMU does not keep the program counter up to date inside a block. */
uint64_t site_target(const struct site *site, uint64_t pc)
{
	uint64_t begin = (pc & 0xfff) == site->begin ? pc : pc - site->offset;
	return begin + (uint64_t)(int64_t)site->displacement;
}

void instrument_insns(const struct block *block,
		      struct branch (*decode)(const uint8_t *bytes, size_t size),
		      void (*each)(const struct block *block, const struct insn *insn))
{
	size_t n = qemu_plugin_tb_n_insns(block->tb);
	for (size_t i = 0; i < n; i++) {
		struct insn insn = { .qemu = qemu_plugin_tb_get_insn(block->tb, i) };
		insn.size = qemu_plugin_insn_data(insn.qemu, insn.bytes, sizeof(insn.bytes));
		insn.branch = decode(insn.bytes, insn.size);
		if (insn.branch.kind == BRANCH_NONE)
			continue;
		insn.va = qemu_plugin_insn_vaddr(insn.qemu);
		each(block, &insn);
		if (insn.branch.kind == BRANCH_CALL && !block_covers(block, insn_target(&insn)))
			callees_add(block->trace->callees, insn_target(&insn));
	}
}

/* ---- jumps ------------------------------------------------------------------------ */

static void on_jump(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place to = place_unpack(data);
	if (!tracer)
		return;
	track_jump(tracer->tracker, to.rank, to.va, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

static void on_jump_relative(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct site site = site_unpack(data);
	if (!tracer)
		return;
	track_jump(tracer->tracker, site.rank,
		   site_target(&site, vcpu_value(vcpu, vcpu_arch()->pc)),
		   tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

/* True if the stack is as at the begin of the innermost call, and the target is not in it. */
static bool site_is_tail_call(const struct site *site, const struct call_tracker *tracker,
			      uint64_t target, uint64_t sp)
{
	uint64_t slot, function;
	bool forward = site->displacement > (int32_t)site->offset;
	return call_tracker_find_innermost(tracker, site->rank, &slot, &function) && slot == sp &&
	       (forward || target < function);
}

static void on_jump_perhaps(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct site site = site_unpack(data);
	if (!tracer)
		return;
	uint64_t target = site_target(&site, vcpu_value(vcpu, vcpu_arch()->pc));
	if (site_is_tail_call(&site, tracer->tracker, target, vcpu_value(vcpu, vcpu_arch()->sp)))
		track_jump(tracer->tracker, site.rank, target, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

/* True if a jump to this address would be a tail call. */
static bool block_has_function(const struct block *block, uint64_t va)
{
	if (!block_covers(block, va))
		return callees_have(block->trace->callees, va);
	int flags = call_trackers_find_function(block->trace->trackers, va);
	return flags >= 0 &&
	       !((unsigned)flags & (VMS_AGENT_FUNCTION_RETURN | VMS_AGENT_FUNCTION_ENTRY));
}

/*
 * True if a jump may be a tail call, although it is not known whether its target begins a function.
 * A forward jump leaves its function if another function begins before the target.
 * on_jump_perhaps() decides at run time.
 */
static bool may_be_tail_call(const struct block *block, const struct insn *insn)
{
	uint64_t target = insn_target(insn);
	unsigned align = vcpu_arch()->function_align;
	return !block_covers(block, target) && !block->segment && target % align == 0 &&
	       (target < insn->va ||
		callees_have_between(block->trace->callees, insn->va, target, align));
}

void instrument_jump(const struct block *block, const struct insn *insn)
{
	uint64_t target = insn_target(insn);
	bool is_known = block_has_function(block, target);
	void *data = place_pack(target, block->rank);
	if (is_known && block->rank > 0)
		qemu_plugin_register_vcpu_insn_exec_cb(insn->qemu, on_jump, QEMU_PLUGIN_CB_NO_REGS,
						       data);
	else if ((is_known || may_be_tail_call(block, insn)) && site_pack(block, insn, &data))
		qemu_plugin_register_vcpu_insn_exec_cb(
			insn->qemu, is_known ? on_jump_relative : on_jump_perhaps,
			QEMU_PLUGIN_CB_R_REGS, data);
}

static void on_jump_register(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place number = place_unpack(data);
	if (!tracer)
		return;
	uint64_t to = vcpu_arch()->code_register(vcpu, (unsigned)number.va);
	if (call_trackers_find_function(tracer->trace->trackers, to) >= 0)
		track_jump(tracer->tracker, number.rank, to, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

void instrument_jump_register(const struct block *block, const struct insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn->qemu, on_jump_register, QEMU_PLUGIN_CB_R_REGS,
					       place_pack(insn->branch.reg, block->rank));
}

/* ---- stack loads, start, stop ------------------------------------------------ */

static void on_stack_load(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	track_stack_load(tracer->tracker, place_unpack(data).rank);
	tracer_leave(vcpu);
}

void instrument_stack_load(const struct block *block, const struct insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn->qemu, on_stack_load, QEMU_PLUGIN_CB_NO_REGS,
					       place_pack(0, block->rank));
}

void instrument_begin(const struct block *block, bool surely)
{
	static char mark;
	qemu_plugin_register_vcpu_tb_exec_cb(block->tb, tracer_on_begin, QEMU_PLUGIN_CB_NO_REGS,
					     surely ? &mark : NULL);
}

/* The call itself has been tracked before this. */
static void on_stop_function(unsigned vcpu, __attribute__((unused)) void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	tracer_check_stop(tracer);
	tracer_leave(vcpu);
}

void instrument_block(struct qemu_plugin_tb *tb)
{
	struct vcpu *vcpu = vcpu_current();
	/* Gates exist only from the first trace on. */
	struct tracer *tracer =
		vcpu && atomic_load(&trace_current) ? tracer_enter(vcpu->index) : NULL;
	if (!tracer)
		return;
	struct block block = {
		.tb = tb,
		.trace = tracer->trace,
		.va = qemu_plugin_tb_vaddr(tb),
		.rank = vcpu_arch()->rank(vcpu),
	};
	if (block.trace->options.clock == VMS_AGENT_CLOCK_INSTRUCTIONS)
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
								  trace_instructions,
								  qemu_plugin_tb_n_insns(tb));
	int flags = call_trackers_find_function(block.trace->trackers, block.va);
	block.flags = flags < 0 ? 0 : (unsigned)flags;
	if (block.flags & VMS_AGENT_FUNCTION_STOP)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_stop_function, QEMU_PLUGIN_CB_NO_REGS,
						     NULL);
	if (block.flags & VMS_AGENT_FUNCTION_LOOK)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, look_at_function, QEMU_PLUGIN_CB_NO_REGS,
						     NULL);
	look_at_block(tracer, vcpu->index, block.va, block.rank);
	if (vcpu_arch() == &arch_aarch64)
		instrument_aarch64(&block);
	else
		instrument_x86(&block);
	tracer_leave(vcpu->index);
}
