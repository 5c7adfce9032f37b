/* SPDX-License-Identifier: MIT */
#include "agent/qemu/kick.h"

#include "agent/qemu/internals.h"
#include <limits.h>
#include <stdatomic.h>

#define ALL_VCPUS UINT_MAX

static struct {
	qemu_plugin_id_t id;
	void (*on_kick)(struct vcpu *vcpu);
	void (*on_halt)(struct vcpu *vcpu, uint64_t next);
	qemu_plugin_u64 flag; /* of each vCPU; without memory if the queue is used */
} kick;

bool kick_needs_code(void)
{
	return kick.flag.score;
}

/* ---- QEMU's queue ------------------------------------------------------- */

/* True if this thread holds QEMU's big lock, and must release it before it waits. */
static _Thread_local bool has_big_lock;

static void on_work(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	atomic_store(&vcpu->is_kicked, false);
	has_big_lock = true;
	kick.on_kick(vcpu);
	has_big_lock = false;
}

void kick_begin_wait(void)
{
	if (has_big_lock)
		internals_unlock();
}

void kick_end_wait(void)
{
	if (has_big_lock)
		internals_lock();
}

static void queue_kick(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	if (vcpu->qemu && !atomic_exchange(&vcpu->is_kicked, true))
		internals_queue(vcpu->qemu, vcpu->index);
	g_mutex_unlock(&vcpu->lock);
}

/* ---- flags -------------------------------------------------------------- */

/*
 * Called by translated code when the vCPU's flag is set. The fence makes writes before the flag
 * visible.
 */
static void on_flag(unsigned index, __attribute__((unused)) void *data)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	qemu_plugin_u64_set(kick.flag, index, 0);
	atomic_thread_fence(memory_order_seq_cst);
	kick.on_kick(vcpu);
}

/* Called by translated code that halts. The flag makes the vCPU answer when it continues. */
static void on_halt_insn(unsigned index, void *next)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	kick.on_halt(vcpu, (uint64_t)(uintptr_t)next);
	qemu_plugin_u64_set(kick.flag, index, 1);
}

/* True if a block that ends in this instruction may leave a function or repeat a loop. */
static bool may_leave_or_loop(const uint8_t *bytes, size_t size)
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

void kick_translate(struct qemu_plugin_tb *tb)
{
	uint8_t bytes[16];
	size_t n = qemu_plugin_tb_n_insns(tb);
	if (n == 0 || vcpus_mixed_up())
		return;
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, n - 1);
	size_t size = qemu_plugin_insn_data(last, bytes, sizeof(bytes));
	if (may_leave_or_loop(bytes, size))
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_flag, QEMU_PLUGIN_CB_R_REGS,
							  QEMU_PLUGIN_COND_NE, kick.flag, 0, NULL);
	if (vcpus_one_thread() && vcpu_arch()->halts(bytes, size))
		qemu_plugin_register_vcpu_insn_exec_cb(
			last, on_halt_insn, QEMU_PLUGIN_CB_R_REGS,
			(void *)(uintptr_t)(qemu_plugin_insn_vaddr(last) + size));
}

/* The vCPU to kick, or ALL_VCPUS. An argument of set_flag, which gets no user data. */
static _Thread_local unsigned kicked_index;

static void set_flag QEMU_CALLBACK(unsigned index)
{
	if (kicked_index == ALL_VCPUS || kicked_index == index)
		qemu_plugin_u64_set(kick.flag, index, 1);
}

/*
 * The memory of scoreboards moves when vCPUs are added. qemu_plugin_vcpu_for_each takes a lock that
 * prevents this.
 */
static void set_flags(unsigned index)
{
	kicked_index = index;
	atomic_thread_fence(memory_order_seq_cst);
	QEMU_REGISTER(qemu_plugin_vcpu_for_each, kick.id, set_flag);
}

/* ---- kicks by queue or flag --------------------------------------------- */

bool kick_init(qemu_plugin_id_t id, unsigned api, bool internals,
	       void (*on_kick)(struct vcpu *vcpu),
	       void (*on_halt)(struct vcpu *vcpu, uint64_t next))
{
	kick.id = id;
	kick.on_kick = on_kick;
	kick.on_halt = on_halt;
	if (internals && internals_find(api, on_work))
		return true;
	kick.flag.score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	return kick.flag.score;
}

void kick_vcpu(unsigned index)
{
	if (kick_needs_code())
		set_flags(index);
	else
		queue_kick(vcpu_get(index));
}

void kick_all_vcpus(void)
{
	if (kick_needs_code()) {
		set_flags(ALL_VCPUS);
		return;
	}
	for (unsigned i = 0; i < vcpus_max(); i++)
		queue_kick(vcpu_get(i));
}
