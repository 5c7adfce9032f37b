/* SPDX-License-Identifier: MIT */
/*
 * Instruments code of x86. The memory accesses of calls and returns have all that is needed: the
 * address is the slot, the value is the return address. So no register is read. For interrupts and
 * system calls, callbacks read the frame that the processor has pushed.
 */
#include "agent/calls/instrument.h"

#include "agent/calls/follow_tasks.h"

#define RESET_VECTOR 0xfffffff0
#define CR0_PE	     1
/* A call with a displacement up to this is no real call: it fills the return stack buffer. */
#define LAST_NO_CALL 15

/* A call, return or jump through memory. */
struct x86_site {
	int32_t displacement;
	uint16_t segment;
	uint8_t rank;
};

/* The frame that iret pops from the stack. */
struct x86_frame {
	uint64_t rip, cs, rflags, rsp, ss;
};

static void *pack_x86_site(const struct block *block, const struct insn *insn)
{
	union {
		struct x86_site site;
		void *data;
	} packed = { .data = NULL };
	packed.site.displacement = (int32_t)insn->branch.displacement;
	packed.site.segment = block->segment;
	packed.site.rank = (uint8_t)block->rank;
	return packed.data;
}

static struct x86_site unpack_x86_site(void *data)
{
	union {
		void *data;
		struct x86_site site;
	} packed = { .data = data };
	return packed.site;
}

/* Returns the code address that was read or written, plus `displacement`. */
static uint64_t read_code_address(qemu_plugin_meminfo_t info, const struct x86_site *site,
				  int32_t displacement)
{
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
	uint64_t offset = (uint64_t)(int64_t)displacement, base = (uint64_t)site->segment << 4;
	switch (value.type) {
	case QEMU_PLUGIN_MEM_VALUE_U64: return value.data.u64 + offset;
	case QEMU_PLUGIN_MEM_VALUE_U32: return base + (uint32_t)(value.data.u32 + offset);
	case QEMU_PLUGIN_MEM_VALUE_U16: return base + (uint16_t)(value.data.u16 + offset);
	case QEMU_PLUGIN_MEM_VALUE_U8:
	case QEMU_PLUGIN_MEM_VALUE_U128:
	default: return 0;
	}
}

static unsigned find_rank(uint64_t cs)
{
	return 3 - (cs & 3);
}

/* ---- calls and returns ------------------------------------------------------ */

/* A call in code that has only one address, so that the target is known. */
static void on_call_known(unsigned vcpu, __attribute__((unused)) qemu_plugin_meminfo_t info,
			  uint64_t va, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place to = place_unpack(data);
	if (!tracer)
		return;
	track_call(tracer->tracker, to.rank, va, to.va, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

static void on_call(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct x86_site site = unpack_x86_site(data);
	if (!tracer)
		return;
	track_call(tracer->tracker, site.rank, va,
		   read_code_address(info, &site, site.displacement), tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

static void on_target(unsigned vcpu, qemu_plugin_meminfo_t info,
		      __attribute__((unused)) uint64_t va, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct x86_site site = unpack_x86_site(data);
	if (!tracer)
		return;
	tracer->target = read_code_address(info, &site, 0);
	tracer_leave(vcpu);
}

static void on_target_register(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	tracer->target = vcpu_arch()->code_register(vcpu, (unsigned)(uintptr_t)data);
	tracer_leave(vcpu);
}

static void on_call_indirect(unsigned vcpu, __attribute__((unused)) qemu_plugin_meminfo_t info,
			     uint64_t va, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	track_call(tracer->tracker, unpack_x86_site(data).rank, va, tracer->target,
		   tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

static void on_return(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct x86_site site = unpack_x86_site(data);
	if (!tracer)
		return;
	uint64_t time = tracer_time(tracer, vcpu);
	if (!track_expected_return(tracer->tracker, site.rank, va, time))
		track_return(tracer->tracker, site.rank, va, read_code_address(info, &site, 0),
			     time);
	tracer_leave(vcpu);
}

/* ---- jumps -------------------------------------------------------------------- */

/* A jump through memory: by a table of a switch, or of functions. */
static void on_jump_memory(unsigned vcpu, qemu_plugin_meminfo_t info,
			   __attribute__((unused)) uint64_t va, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct x86_site site = unpack_x86_site(data);
	if (!tracer)
		return;
	uint64_t to = read_code_address(info, &site, 0);
	if (call_trackers_find_function(tracer->trace->trackers, to) >= 0)
		track_jump(tracer->tracker, site.rank, to, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

/*
 * The jump of a linker's stub. Before the symbol is bound, the stub jumps to its own next
 * instruction, which is at the offset `displacement` in its page.
 */
static void on_jump_stub(unsigned vcpu, qemu_plugin_meminfo_t info,
			 __attribute__((unused)) uint64_t va, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct x86_site site = unpack_x86_site(data);
	if (!tracer)
		return;
	uint64_t to = read_code_address(info, &site, 0);
	if ((to & 0xfff) != (uint64_t)site.displacement)
		track_jump(tracer->tracker, site.rank, to, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

/* ---- entry and exit of the kernel --------------------------------------------- */

static bool is_frame(const struct x86_frame *frame)
{
	return frame->cs <= UINT16_MAX && (frame->cs & ~UINT64_C(3)) != 0 && (frame->rflags & 2) &&
	       frame->ss <= UINT16_MAX;
}

/* Reads the frame at `*rsp`. If there is an error code before it, moves `*rsp` past that. */
static bool read_frame(unsigned vcpu, uint64_t *rsp, struct x86_frame *frame)
{
	for (unsigned i = 0; i < 2; i++, *rsp += sizeof(uint64_t))
		if (vcpu_read_memory(vcpu_get(vcpu), *rsp, frame, sizeof(*frame)) &&
		    is_frame(frame))
			return true;
	return false;
}

/* After an interrupt, rsp is on a kernel stack. After a system call, it is still the user's. */
static void on_entry(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct place at = place_unpack(data);
	struct x86_frame frame;
	if (!tracer)
		return;
	uint64_t time = tracer_time(tracer, vcpu), rsp = vcpu_value(vcpu, X86_RSP);
	tracer->has_system = true;
	if ((int64_t)rsp >= 0)
		track_entry(tracer->tracker, ENTRY_SYSCALL, at.rank, rsp, at.va, 0,
			    vcpu_value(vcpu, X86_RCX), rsp, time);
	else if (read_frame(vcpu, &rsp, &frame))
		track_entry(tracer->tracker, ENTRY_INTERRUPT, at.rank, rsp, at.va,
			    find_rank(frame.cs), frame.rip, frame.rsp, time);
	tracer_leave(vcpu);
}

static void track_exit_to(struct tracer *tracer, unsigned vcpu, unsigned rank, uint64_t slot,
			  const struct x86_frame *to)
{
	uint64_t time = tracer_time(tracer, vcpu);
	if (find_rank(to->cs) == 0 && !call_tracker_resumes_user(tracer->tracker, to->rip, to->rsp))
		follow_space(tracer, vcpu_get(vcpu));
	track_exit(tracer->tracker, rank, slot, find_rank(to->cs), to->rip, to->rsp, time);
}

static void on_iret(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	struct x86_frame frame;
	if (!tracer)
		return;
	uint64_t rsp = vcpu_value(vcpu, X86_RSP);
	/* is_frame would fail: the kernel's frame for a new program lacks flags. */
	if (vcpu_read_memory(vcpu_get(vcpu), rsp, &frame, sizeof(frame)))
		track_exit_to(tracer, vcpu, place_unpack(data).rank, rsp, &frame);
	tracer_leave(vcpu);
}

/* sysret. The stack pointer is already the user's. */
static void on_sysret(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	struct x86_frame frame = {
		.rip = vcpu_value(vcpu, X86_RCX),
		.rsp = vcpu_value(vcpu, X86_RSP),
		.cs = 3,
	};
	track_exit_to(tracer, vcpu, place_unpack(data).rank, frame.rsp, &frame);
	tracer_leave(vcpu);
}

/* ---- translation -------------------------------------------------------------- */

/* True for user code and code in real mode, which may have several addresses. */
static bool is_low(const struct block *block)
{
	return (int64_t)block->va >= 0;
}

static void instrument_call(const struct block *block, const struct insn *insn)
{
	int64_t displacement = insn->branch.displacement;
	if (displacement >= 0 && displacement <= LAST_NO_CALL)
		return;
	bool is_known = block->rank > 0 && !is_low(block);
	qemu_plugin_register_vcpu_mem_cb(insn->qemu, is_known ? on_call_known : on_call,
					 QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
					 is_known ? place_pack(insn_target(insn), block->rank)
						  : pack_x86_site(block, insn));
}

static void instrument_call_indirect(const struct block *block, const struct insn *insn)
{
	if (insn->branch.kind == BRANCH_CALL_REGISTER)
		qemu_plugin_register_vcpu_insn_exec_cb(insn->qemu, on_target_register,
						       QEMU_PLUGIN_CB_R_REGS,
						       (void *)(uintptr_t)insn->branch.reg);
	else
		qemu_plugin_register_vcpu_mem_cb(insn->qemu, on_target, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_R, pack_x86_site(block, insn));
	qemu_plugin_register_vcpu_mem_cb(insn->qemu, on_call_indirect, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_W, pack_x86_site(block, insn));
}

static void instrument_jump_memory(const struct block *block, struct insn insn)
{
	qemu_plugin_mem_cb callback = NULL;
	if (block_covers(block, insn.va)) {
		callback = on_jump_memory;
	} else if (insn.branch.fixed) {
		callback = on_jump_stub;
		insn.branch.displacement = (insn.va + insn.size) & 0xfff;
	}
	if (callback)
		qemu_plugin_register_vcpu_mem_cb(insn.qemu, callback, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_R, pack_x86_site(block, &insn));
}

static void instrument_exception_return(const struct block *block, const struct insn *insn)
{
	bool is_sysret = insn->bytes[insn->size - 1] == 0x07;
	bool is_long = insn->size > 1 && (insn->bytes[insn->size - 2] & 0xf8) == 0x48;
	if (is_sysret || is_long)
		qemu_plugin_register_vcpu_insn_exec_cb(insn->qemu, is_sysret ? on_sysret : on_iret,
						       QEMU_PLUGIN_CB_R_REGS,
						       place_pack(0, block->rank));
}

static void instrument_insn(const struct block *block, const struct insn *insn)
{
	switch (insn->branch.kind) {
	case BRANCH_CALL: instrument_call(block, insn); break;
	case BRANCH_CALL_REGISTER:
	case BRANCH_CALL_MEMORY: instrument_call_indirect(block, insn); break;
	case BRANCH_RETURN:
		qemu_plugin_register_vcpu_mem_cb(insn->qemu, on_return, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_R, pack_x86_site(block, insn));
		break;
	case BRANCH_JUMP: instrument_jump(block, insn); break;
	case BRANCH_JUMP_REGISTER:
		if (block_covers(block, insn->va))
			instrument_jump_register(block, insn);
		break;
	case BRANCH_JUMP_MEMORY: instrument_jump_memory(block, *insn); break;
	case BRANCH_EXCEPTION_RETURN: instrument_exception_return(block, insn); break;
	case BRANCH_STACK_LOAD: instrument_stack_load(block, insn); break;
	case BRANCH_NONE:
	case BRANCH_JUMP_CONDITIONAL:
	case BRANCH_FAR: /* switches segments; it pushes no function's frame */
	case BRANCH_REPEAT:
	default: break;
	}
}

void instrument_x86(struct block *block)
{
	struct vcpu *vcpu = vcpu_current();
	uint64_t cr0 = CR0_PE, cs = 0;
	if (is_low(block))
		vcpu_read(vcpu, X86_CR0, &cr0);
	if (!(cr0 & CR0_PE)) {
		vcpu_read(vcpu, X86_CS, &cs);
		block->segment = (uint16_t)cs;
		instrument_begin(block, block->va == RESET_VECTOR);
	}
	if (block->flags & VMS_AGENT_FUNCTION_ENTRY)
		qemu_plugin_register_vcpu_tb_exec_cb(block->tb, on_entry, QEMU_PLUGIN_CB_R_REGS,
						     place_pack(block->va, block->rank));
	instrument_insns(block, branch_x86, instrument_insn);
}
