/* SPDX-License-Identifier: MIT */
/*
 * A thread that was asked to stop can be polled for, or waited for by a signal. Polling is quicker,
 * but useless if the thread needs the very processor that polls. This decides which: if a thread
 * that should have stopped is found to be on this processor, its next stops are not polled for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What is known of a thread; zeros: nothing. */
struct vms_kvm_poll {
	unsigned n_without; /* how many stops are not polled for */
	bool is_far;	    /* it was found to be on another processor, for this stop */
};

/* The thread is asked to stop. */
void vms_kvm_poll_begin(struct vms_kvm_poll *poll);
/* True if it has to be looked up where the thread is; vms_kvm_poll_note follows. */
bool vms_kvm_poll_wants_look(const struct vms_kvm_poll *poll, uint64_t waited_ns);
void vms_kvm_poll_note(struct vms_kvm_poll *poll, bool is_near);
/* True if the stop, which was asked for so long ago, is to be polled for. */
bool vms_kvm_poll_goes_on(const struct vms_kvm_poll *poll, uint64_t waited_ns);
