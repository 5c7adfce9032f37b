/* SPDX-License-Identifier: MIT */
#include "call.h"

#include "internals.h"
#include <limits.h>
#include <stdatomic.h>

#define ALL UINT_MAX

static struct {
	qemu_plugin_id_t id;
	void (*called)(struct vcpu *vcpu);
	void (*halts)(struct vcpu *vcpu, uint64_t next);
	qemu_plugin_u64 flag; /* by vCPU; without a queue */
} call;

bool call_needs_code(void)
{
	return call.flag.score;
}

/* ---- QEMU's queue ------------------------------------------------------- */

static _Thread_local bool waits_unlocked;

static void come(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	atomic_store(&vcpu->is_called, false);
	waits_unlocked = true;
	call.called(vcpu);
	waits_unlocked = false;
}

void call_begin_wait(void)
{
	if (waits_unlocked)
		internals_unlock();
}

void call_end_wait(void)
{
	if (waits_unlocked)
		internals_lock();
}

static void queue(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	if (vcpu->qemu && !atomic_exchange(&vcpu->is_called, true))
		internals_queue(vcpu->qemu, vcpu->index);
	g_mutex_unlock(&vcpu->lock);
}

/* ---- flags -------------------------------------------------------------- */

/* From translated code, when the vCPU's flag is set. What was asked for before is seen after it. */
static void on_flag(unsigned index, __attribute__((unused)) void *data)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	qemu_plugin_u64_set(call.flag, index, 0);
	atomic_thread_fence(memory_order_seq_cst);
	call.called(vcpu);
}

/* From translated code that halts: called where it goes on, which nothing else tells of. */
static void on_halt(unsigned index, void *next)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	call.halts(vcpu, (uint64_t)(uintptr_t)next);
	qemu_plugin_u64_set(call.flag, index, 1);
}

/* May code that ends in this instruction leave a function or go round a loop? */
static bool leaves(const uint8_t *bytes, size_t size)
{
	struct branch branch = vcpu_arch()->branch(bytes, size);
	switch (branch.kind) {
	case BRANCH_NONE:
	case BRANCH_STACK_LOAD: return false;
	case BRANCH_JUMP:
	case BRANCH_JUMP_CONDITIONAL: return branch.displacement < 0;
	case BRANCH_CALL:
	case BRANCH_CALL_REGISTER:
	case BRANCH_CALL_MEMORY:
	case BRANCH_RETURN:
	case BRANCH_JUMP_REGISTER:
	case BRANCH_JUMP_MEMORY:
	case BRANCH_FAR:
	case BRANCH_EXCEPTION_RETURN:
	case BRANCH_REPEAT:
	default: return true;
	}
}

void call_translate(struct qemu_plugin_tb *tb)
{
	uint8_t bytes[16];
	size_t n = qemu_plugin_tb_n_insns(tb);
	if (n == 0 || vcpus_mixed_up())
		return;
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, n - 1);
	size_t size = qemu_plugin_insn_data(last, bytes, sizeof(bytes));
	if (leaves(bytes, size))
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_flag, QEMU_PLUGIN_CB_R_REGS,
							  QEMU_PLUGIN_COND_NE, call.flag, 0, NULL);
	if (vcpus_one_thread() && vcpu_arch()->halts(bytes, size))
		qemu_plugin_register_vcpu_insn_exec_cb(
			last, on_halt, QEMU_PLUGIN_CB_R_REGS,
			(void *)(uintptr_t)(qemu_plugin_insn_vaddr(last) + size));
}

static _Thread_local unsigned calling; /* index, or ALL */

static void set_flag QEMU_CALLBACK(unsigned index)
{
	if (calling == ALL || calling == index)
		qemu_plugin_u64_set(call.flag, index, 1);
}

/*
 * The memory of scoreboards moves when vCPUs are added; the lock that qemu_plugin_vcpu_for_each
 * takes keeps it where it is.
 */
static void set_flags(unsigned index)
{
	calling = index;
	atomic_thread_fence(memory_order_seq_cst);
	QEMU_REGISTER(qemu_plugin_vcpu_for_each, call.id, set_flag);
}

/* ---- both --------------------------------------------------------------- */

bool call_init(qemu_plugin_id_t id, unsigned api, bool internals, void (*called)(struct vcpu *vcpu),
	       void (*halts)(struct vcpu *vcpu, uint64_t next))
{
	call.id = id;
	call.called = called;
	call.halts = halts;
	if (internals && internals_find(api, come))
		return true;
	call.flag.score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	return call.flag.score;
}

void call_vcpu_init(struct vcpu *vcpu)
{
	if (call_needs_code())
		return;
	g_mutex_lock(&vcpu->lock);
	vcpu->qemu = internals_vcpu(vcpu->index);
	atomic_store(&vcpu->is_called, false);
	g_mutex_unlock(&vcpu->lock);
}

void call_vcpu_exit(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	vcpu->qemu = NULL;
	g_mutex_unlock(&vcpu->lock);
}

void call_vcpu(unsigned index)
{
	if (call_needs_code())
		set_flags(index);
	else
		queue(vcpu_get(index));
}

void call_all(void)
{
	if (call_needs_code()) {
		set_flags(ALL);
		return;
	}
	for (unsigned i = 0; i < vcpus_max(); i++)
		queue(vcpu_get(i));
}
