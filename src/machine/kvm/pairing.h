/* SPDX-License-Identifier: MIT */
/* Finds out which thread of a monitor runs which vCPU. */
#pragma once

#include "machine/kvm/holder.h"

/*
 * Fills in `thread` of the vCPUs, struct vms_kvm_vcpu. A thread that waits in KVM_RUN says which
 * vCPU it runs. One that executes is stopped for some microseconds to see that, in the slot `index`
 * of the holder. A vCPU whose thread does neither is taken by the thread's name, if that has its
 * number. Errors: NOT_FOUND (no thread of any vCPU was found), those of vms_kvm_holder_hold, and of
 * vms_kvm_set_trace_error.
 */
bool vms_kvm_pair_threads(struct vms_kvm_holder *holder, unsigned index, pid_t pid, GArray *vcpus,
			  GError **error);
