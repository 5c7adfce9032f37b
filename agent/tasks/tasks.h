/* SPDX-License-Identifier: MIT */
/*
 * Which task of the guest each vCPU runs, and when address spaces end. A client tells where Linux
 * keeps that, and which of its functions switch tasks and end address spaces (struct
 * vms_agent_tasks). Other services use what is tracked here: code is instrumented for it while at
 * least one of them does.
 *
 * A vCPU's task belongs to that vCPU's thread.
 */
#pragma once

#include "agent/service.h"
#include "agent/tasks/task.h"

/* What another service wants to know, in a callback of the vCPU that may read registers. */
struct task_listener {
	/* The vCPU continues with this task. */
	void (*switched)(unsigned vcpu, const struct task *task);
	/* The address space `mm` ends when this returns. `task` is what the vCPU runs. */
	void (*space_ends)(unsigned vcpu, uint64_t mm, const struct task *task);
};

extern const struct service tasks_service;

/* Adds a listener, which is never removed. Called when QEMU installs the plugin. */
void tasks_add_listener(const struct task_listener *listener);

/*
 * A service begins to use tasks, with what this client told. Called when QEMU has forgotten all
 * code, while no vCPU is in guest code.
 */
void tasks_begin_use(unsigned client);
/* Takes what this client told since. Called as tasks_begin_use. */
void tasks_update(unsigned client);
/* The service does not use tasks any more. From any thread. */
void tasks_end_use(void);

/* True if the client told where tasks are: it has recognised the guest. */
bool tasks_are_known(void);
/* Returns what the vCPU runs; `va` is 0 if no task is known. */
const struct task *tasks_current(unsigned vcpu);
/*
 * Notes that the vCPU runs the task at `va`. Listeners are not told. `reader` is a vCPU in whose
 * callback this is called. NULL: it cannot be read, and nothing has changed.
 */
const struct task *tasks_note(unsigned vcpu, struct vcpu *reader, uint64_t va);
/* The vCPU runs no known task any more. */
void tasks_forget(unsigned vcpu);
/*
 * Checks for another address space of the vCPU's task, which it gets when it starts a program.
 * False: it has the same, or none.
 */
bool tasks_check_space(struct vcpu *vcpu);
