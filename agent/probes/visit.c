/* SPDX-License-Identifier: MIT */
#include "agent/probes/visit.h"

#include "agent/gate.h"
#include "agent/probes/return_marks.h"
#include "agent/qemu/wide.h"
#include <stdlib.h>

struct plan *_Atomic visit_plan;
qemu_plugin_u64 visit_pending;

static struct {
	struct gate *gates;
	struct pending *pending; /* by vCPU */
	unsigned n;
	void (*ended)(void);
} visit;

bool visit_init(void (*ended)(void))
{
	visit.ended = ended;
	visit.n = vcpus_max();
	visit.gates = gates_new(visit.n);
	visit.pending = calloc(visit.n, sizeof(*visit.pending));
	visit_pending.score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	return visit.gates && visit.pending && visit_pending.score && returns_init();
}

void visit_wait(void)
{
	gates_wait(visit.gates, visit.n);
}

void visit_begin_vcpu(unsigned vcpu)
{
	if (vcpu >= visit.n)
		return;
	qemu_plugin_u64_set(visit_pending, vcpu, 0);
	returns_begin_vcpu(vcpu);
}

void outcome_add(struct outcome *outcome, unsigned reg, uint64_t value)
{
	outcome->regs[outcome->n].reg = reg;
	outcome->regs[outcome->n++].value = value;
}

/* ---- registers and memory for programs ---------------------------------------------- */

struct program_context {
	struct vcpu *vcpu;
	const struct outcome *outcome;
};

static bool read_reg(void *data, unsigned reg, uint64_t *ret)
{
	const struct program_context *context = data;
	const struct outcome *outcome = context->outcome;
	for (unsigned i = 0; i < outcome->n; i++)
		if (outcome->regs[i].reg == reg) {
			*ret = outcome->regs[i].value;
			return true;
		}
	return reg < vcpu_arch()->n_regs && vcpu_read(context->vcpu, reg, ret);
}

static bool read_memory(void *data, uint64_t va, void *buf, size_t size)
{
	const struct program_context *context = data;
	return vcpu_read_memory(context->vcpu, va, buf, size);
}

static bool read_wide(void *data, unsigned number, void *buf, size_t size)
{
	const struct program_context *context = data;
	return wide_read(context->vcpu, number, buf, size);
}

/* Opens a call. The vCPU is at the begin of the function. True if this has ended the set. */
static bool open_call(struct probe_set *set, struct vcpu *vcpu, const struct probe_hit *hit,
		      uint64_t function)
{
	struct call_key key;
	if (!returns_key_of_call(vcpu, function, &key))
		return false;
	returns_watch(key.pc);
	return probe_set_call(set, hit, &key);
}

/* Runs the programs of `n` entries. The vCPU is inside its gate. */
static void run_entries(const struct plan *plan, struct vcpu *vcpu,
			const struct plan_entry *entries, unsigned n, const struct outcome *outcome)
{
	struct program_context context = { vcpu, outcome };
	const struct vms_program_input input = { .reg = read_reg,
						 .read = read_memory,
						 .data = &context,
						 .vcpu = vcpu->index,
						 .wide = read_wide };
	for (unsigned i = 0; i < n; i++) {
		const struct probe_hit hit = { entries[i].place, vcpu->index, &input };
		struct probe_set *set = atomic_load(&plan->sets[entries[i].set]);
		if (set && (entries[i].call ? open_call(set, vcpu, &hit, entries[i].va)
					    : probe_set_run(set, &hit)))
			visit.ended();
	}
}

/* ---- before ---------------------------------------------------------------------------- */

static void note_pending(struct vcpu *vcpu, const struct pending *insn)
{
	struct pending *pending = &visit.pending[vcpu->index];
	*pending = *insn;
	vcpu_read(vcpu, vcpu_arch()->sp, &pending->sp);
	qemu_plugin_u64_set(visit_pending, vcpu->index, 1);
}

void visit_before(unsigned index, const struct pending *insn)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	gate_enter(&visit.gates[index]);
	const struct plan *plan = atomic_load_explicit(&visit_plan, memory_order_acquire);
	if (plan) {
		const struct plan_place place = plan_find(plan, insn->va);
		struct outcome outcome = { .n = 0 };
		/* QEMU does not keep the program counter up to date inside a block. */
		outcome_add(&outcome, vcpu_arch()->pc, insn->va);
		run_entries(plan, vcpu, place.entries, place.n_before, &outcome);
		if (place.n_after)
			note_pending(vcpu, insn);
	}
	gate_leave(&visit.gates[index]);
}

/* ---- after ----------------------------------------------------------------------------- */

static void run_after(struct vcpu *vcpu, const struct outcome *outcome)
{
	const uint64_t va = visit.pending[vcpu->index].va;
	qemu_plugin_u64_set(visit_pending, vcpu->index, 0);
	if (outcome->end != EXECUTED)
		return;
	gate_enter(&visit.gates[vcpu->index]);
	const struct plan *plan = atomic_load_explicit(&visit_plan, memory_order_acquire);
	if (plan) {
		const struct plan_place place = plan_find(plan, va);
		if (place.entries) /* the place was not removed since */
			run_entries(plan, vcpu, place.entries + place.n_before, place.n_after,
				    outcome);
	}
	gate_leave(&visit.gates[vcpu->index]);
}

void visit_after(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	struct outcome outcome = { .end = EXECUTED };
	if (!vcpu)
		return;
	outcome_add(&outcome, vcpu_arch()->pc, visit.pending[index].next);
	run_after(vcpu, &outcome);
}

void visit_block(unsigned index, uint64_t pc)
{
	struct vcpu *vcpu = vcpu_get(index);
	struct outcome outcome = { .end = EXECUTED };
	if (!vcpu)
		return;
	const struct pending *pending = &visit.pending[index];
	if (pc == pending->va && pending->repeats)
		return;
	if (pc != pending->next)
		outcome = outcome_of(vcpu, pending, pc);
	if (outcome.n == 0)
		outcome_add(&outcome, vcpu_arch()->pc, pc);
	run_after(vcpu, &outcome);
}

/* ---- returns --------------------------------------------------------------------------- */

/* Runs the programs of the calls that have returned. The vCPU is inside its gate. */
static void run_returns(struct probe_set *set, struct vcpu *vcpu, const struct call_key *key)
{
	struct outcome outcome = { .n = 0 };
	struct program_context context = { vcpu, &outcome };
	const struct vms_program_input input = { .reg = read_reg,
						 .read = read_memory,
						 .data = &context,
						 .vcpu = vcpu->index,
						 .wide = read_wide };
	const struct probe_hit hit = { 0, vcpu->index, &input };
	struct open_call *call = open_calls_take(set->calls, key);
	outcome_add(&outcome, vcpu_arch()->pc, key->pc);
	while (call) {
		struct open_call *next = call->next;
		if (probe_set_return(set, &hit, call))
			visit.ended();
		free(call);
		call = next;
	}
}

void visit_return(unsigned index, uint64_t pc)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	const struct call_key key = returns_key_of_block(vcpu, pc);
	gate_enter(&visit.gates[index]);
	const struct plan *plan = atomic_load_explicit(&visit_plan, memory_order_acquire);
	for (unsigned i = 0; plan && i < VMS_AGENT_MAX_PROBES; i++) {
		struct probe_set *set = atomic_load(&plan->sets[i]);
		if (set && set->calls)
			run_returns(set, vcpu, &key);
	}
	gate_leave(&visit.gates[index]);
}
