/* SPDX-License-Identifier: MIT */
/*
 * A sample of a vCPU: when it was taken, which thread ran, and the addresses of its stack. It is a
 * plain value without pointers, which can be copied and written into a file. Whoever knows the
 * address spaces can name its addresses later.
 */
#pragma once

#include <vmscope/unwind.h>

VMS_BEGIN_DECLS

/* `wait_frame` of a thread that does not wait in the kernel, or nobody knows where. */
#define VMS_NO_WAIT_FRAME UINT32_MAX

struct vms_sample_record {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t vcpu;
	uint32_t pid, tid; /* of the thread that the vCPU ran; 0 if unknown */
	/* Address space of the user addresses (vms_symbolizer_process), or VMS_NO_SPACE. */
	uint32_t space;
	/*
	 * 0: the thread ran. Else it was off the CPU: its state as ps shows it (S D I T …; R if it
	 * waited for a CPU), or '?'. Then `vcpu` is where it ran last.
	 */
	char waits;
	/* Index of the frame whose kernel function it waited in, or VMS_NO_WAIT_FRAME. */
	uint32_t wait_frame;
	bool idle; /* the vCPU is halted; the stack is empty */
	/*
	 * A thread of a host, which has executed a guest's code by the processor. The stack is
	 * empty, because the host's kernel walks none then.
	 */
	bool in_guest;
	/*
	 * The stack has code that was loaded into the kernel, but loaded code had changed since it
	 * was last read. So the stack may be wrong.
	 */
	bool code_changed;
	struct vms_stack stack; /* its addresses, leaf first, and how the walk ended */
};

VMS_END_DECLS
