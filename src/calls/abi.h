/* SPDX-License-Identifier: MIT */
/* What of following calls depends on the architecture, and on how Linux's kernel is built for it.
 */
#pragma once

#include <vmscope/arch.h>

/* Functions of the kernel that the agent has to know; patterns as of fnmatch(). */
struct vms_calls_name {
	const char *pattern;
	uint32_t flags; /* enum vms_agent_function_flags */
};

struct vms_calls_abi {
	const struct vms_arch *arch;
	const struct vms_calls_name *names;
	size_t n_names;
	/* Called to switch tasks; a task that waits for its turn is in it. */
	const char *switch_function;
	/* Gets the next task as its second argument when tasks switch (vms_agent_tasks). */
	const char *task_function;
	/* A call's slot (agent/calls/call_tracker.h), from the stack pointer that its return
	 * leaves. */
	int64_t call_slot;
	/*
	 * A slot for what the processor entered by itself, from the stack pointer of the entry code
	 * when it has saved all registers and called: above those of its calls, and below where
	 * the stack is when it leaves.
	 */
	int64_t entry_slot;
};

/* NULL where calls cannot be followed. */
const struct vms_calls_abi *vms_calls_abi_of(const struct vms_arch *arch);
