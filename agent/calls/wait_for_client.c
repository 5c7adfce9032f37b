/* SPDX-License-Identifier: MIT */
#include "agent/calls/wait_for_client.h"

#include "agent/qemu/kick.h"
#include "agent/tasks/tasks.h"

/*
 * The agent asks for a look after the first blocks of a kernel (`first_look` of struct arch), and
 * again whenever their number has doubled. It stops after this number of blocks, which is more than
 * a boot translates.
 */
#define LAST_BLOCKS (1U << 20)

static void ask_for_look(struct tracer *tracer, unsigned vcpu)
{
	struct vms_agent_rings *shared = tracer->trace->rings.shared;
	if (!tracer->trace->asks_for_looks ||
	    !look_ask(&tracer->look, &shared->looks, &shared->looked))
		return;
	vms_ring_flush(&tracer->ring);
	kick_vcpu(vcpu);
}

static bool is_look_due(uint32_t n_blocks)
{
	return n_blocks >= vcpu_arch()->first_look && n_blocks <= LAST_BLOCKS &&
	       (n_blocks & (n_blocks - 1)) == 0;
}

void look_at_block(struct tracer *tracer, unsigned vcpu, uint64_t va, unsigned rank)
{
	struct trace *trace = tracer->trace;
	bool knows_tasks = tasks_are_known();
	bool is_kernel = (int64_t)va < 0 && rank == vcpu_arch()->levels.kernel;
	if (!knows_tasks && is_kernel &&
	    is_look_due(atomic_fetch_add(&trace->n_kernel_blocks, 1) + 1))
		ask_for_look(tracer, vcpu);
	else if (knows_tasks && rank == 0 && !atomic_exchange(&trace->has_programs, true))
		ask_for_look(tracer, vcpu);
}

void look_at_function(unsigned vcpu, __attribute__((unused)) void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	ask_for_look(tracer, vcpu);
	tracer_leave(vcpu);
}

void look_answer(struct trace *trace)
{
	struct vms_agent_rings *shared = trace->rings.shared;
	atomic_store(&shared->looked, atomic_load(&shared->looking));
}

bool look_wait(struct vcpu *vcpu)
{
	struct tracer *tracer = tracer_enter(vcpu->index);
	if (!tracer)
		return false;
	bool waits = look_is_awaited(&tracer->look, &tracer->trace->rings.shared->looked);
	tracer_leave(vcpu->index);
	if (waits)
		look_pause();
	return waits;
}
