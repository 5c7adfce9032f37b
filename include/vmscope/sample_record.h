/* SPDX-License-Identifier: MIT */
/*
 * A sample of a vCPU: when it was taken, which thread ran, and at which addresses it was. A plain
 * value that points to nothing: it can be copied, written into a file, and named later by whoever
 * knows the address spaces.
 */
#pragma once

#include <vmscope/unwind.h>

VMS_BEGIN_DECLS

struct vms_sample_record {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t vcpu;
	uint32_t pid, tid; /* of the thread that the vCPU ran; 0 where unknown */
	/* Of the user addresses: a process's (vms_symbolizer_process), or VMS_NO_SPACE. */
	uint32_t space;
	bool idle; /* halted: the stack is empty */
	/*
	 * The stack meets code that was loaded into the kernel, and what was known of such code was
	 * old: it may be wrong.
	 */
	bool code_changed;
	struct vms_stack stack; /* addresses, leaf first, and how the walk ended */
};

VMS_END_DECLS
