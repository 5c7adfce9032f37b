/* SPDX-License-Identifier: MIT */
#include "machine/kvm/stop_poll.h"

#define MICROSECOND UINT64_C(1000)
/* How long to poll, and when to look where the thread is. */
#define POLL_NS (100 * MICROSECOND)
#define LOOK_NS (30 * MICROSECOND)
/* After how many stops to poll again for a thread that was near. */
#define AGAIN 16

void vms_kvm_poll_begin(struct vms_kvm_poll *poll)
{
	poll->n_without -= poll->n_without > 0;
	poll->is_far = false;
}

bool vms_kvm_poll_wants_look(const struct vms_kvm_poll *poll, uint64_t waited_ns)
{
	return poll->n_without == 0 && !poll->is_far && waited_ns > LOOK_NS;
}

void vms_kvm_poll_note(struct vms_kvm_poll *poll, bool is_near)
{
	poll->is_far = !is_near;
	poll->n_without = is_near ? AGAIN : 0;
}

bool vms_kvm_poll_goes_on(const struct vms_kvm_poll *poll, uint64_t waited_ns)
{
	return poll->n_without == 0 && waited_ns < POLL_NS;
}
