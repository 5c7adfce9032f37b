/* SPDX-License-Identifier: MIT */
/*
 * Facts for tracing calls that depend on the architecture and on Linux's kernel for it.
 */
#pragma once

#include <vmscope/arch.h>

/* Functions of the kernel that are special for the agent. */
struct vms_calls_name {
	const char *pattern; /* as of fnmatch() */
	uint32_t flags;	     /* enum vms_agent_function_flags */
};

struct vms_calls_abi {
	const struct vms_arch *arch;
	const struct vms_calls_name *names;
	size_t n_names;
	/* The function that switches tasks. Every task that does not run is in it. */
	const char *switch_function;
	/* The function that gets the next task as its second argument (vms_agent_tasks). */
	const char *task_function;
	/*
	 * Offset of a call's slot (agent/calls/call_tracker.h) from the stack pointer just after
	 * the call has returned.
	 */
	int64_t call_slot;
	/*
	 * Offset of the slot of entry code, which the processor has entered by itself, from the
	 * stack pointer when the entry code has saved all registers and calls C code. The slot is
	 * above those of its calls, and below the stack pointer when it leaves.
	 */
	int64_t entry_slot;
};

/* Returns the facts for an architecture, or NULL if its calls cannot be traced. */
const struct vms_calls_abi *vms_calls_abi_of(const struct vms_arch *arch);
