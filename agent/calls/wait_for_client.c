/* SPDX-License-Identifier: MIT */
#include "agent/calls/wait_for_client.h"

#include "agent/qemu/kick.h"
#include "agent/tasks/tasks.h"
#include "base/clock.h"

/*
 * The agent asks for a look after the first blocks of a kernel (`first_look` of struct arch), and
 * again whenever their number has doubled. It stops after this number of blocks, which is more than
 * a boot translates.
 */
#define LAST_BLOCKS (1U << 20)
#define PAUSE_US    500		  /* between two checks for the answer */
#define MAX_WAIT_NS 3000000000ULL /* how long a vCPU waits for the answer */

/*
 * Asks the client for a look. The vCPU waits for it, unless the client has not answered its last
 * one.
 */
static void ask_for_look(struct tracer *tracer, unsigned vcpu)
{
	struct vms_agent_rings *shared = tracer->trace->rings.shared;
	uint64_t now = vms_clock_now_ns();
	if (!tracer->trace->asks_for_looks)
		return;
	const uint32_t asked = atomic_fetch_add(&shared->looks, 1);
	if (tracer->look_end_ns && atomic_load(&shared->looked) != asked)
		return;
	tracer->look_end_ns = now + MAX_WAIT_NS;
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
	atomic_store(&trace->rings.shared->looked, atomic_load(&trace->rings.shared->looks));
}

/* True if the vCPU's look is not answered and its time is not over. */
static bool is_look_awaited(const struct tracer *tracer)
{
	const struct vms_agent_rings *shared = tracer->trace->rings.shared;
	return tracer->look_end_ns > vms_clock_now_ns() &&
	       atomic_load(&shared->looked) != atomic_load(&shared->looks);
}

bool look_wait(struct vcpu *vcpu)
{
	struct tracer *tracer = tracer_enter(vcpu->index);
	if (!tracer)
		return false;
	bool waits = is_look_awaited(tracer);
	tracer_leave(vcpu->index);
	if (!waits)
		return false;
	kick_begin_wait();
	g_usleep(PAUSE_US);
	kick_end_wait();
	return true;
}
