/* SPDX-License-Identifier: MIT */
#include "agent/coverage/looks.h"

#include "agent/qemu/kick.h"
#include "base/clock.h"
#include <sys/socket.h>

#define PAUSE_US    500		  /* between two checks for the answer */
#define MAX_WAIT_NS 3000000000ULL /* how long a vCPU waits for the answer */

/* By vCPU: until when it waits for an answer; 0: it has never asked. */
static uint64_t end_ns[VMS_AGENT_MAX_VCPUS];

static bool is_look_answered(const struct coverage *coverage)
{
	const struct vms_agent_covered *shared = coverage->blocks.shared;
	return atomic_load(&shared->looked) == atomic_load(&shared->looks);
}

void looks_ask(struct coverage *coverage, unsigned vcpu)
{
	struct vms_agent_covered *shared = coverage->blocks.shared;
	if (vcpu >= VMS_AGENT_MAX_VCPUS)
		return;
	const uint32_t asked = atomic_fetch_add(&shared->looks, 1);
	if (end_ns[vcpu] && atomic_load(&shared->looked) != asked)
		return;
	end_ns[vcpu] = vms_clock_now_ns() + MAX_WAIT_NS;
	send(coverage->wake, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	kick_vcpu(vcpu);
}

bool looks_is_awaited(const struct coverage *coverage, unsigned vcpu)
{
	return vcpu < VMS_AGENT_MAX_VCPUS && end_ns[vcpu] > vms_clock_now_ns() &&
	       !is_look_answered(coverage);
}

void looks_wait(void)
{
	kick_begin_wait();
	g_usleep(PAUSE_US);
	kick_end_wait();
}
