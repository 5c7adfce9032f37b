/* SPDX-License-Identifier: MIT */
/*
 * Tracks which task of the guest each vCPU runs, and when address spaces end. A client sends the
 * layout of Linux's task_struct, and the functions that switch tasks and end address spaces (struct
 * vms_agent_tasks). Code is instrumented for this while at least one other service uses it.
 *
 * A vCPU's task belongs to that vCPU's thread.
 */
#pragma once

#include "agent/service.h"
#include "agent/tasks/task.h"

/* Functions of another service, called in a callback of the vCPU that may read registers. */
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
 * A service begins to use tasks, with the layout that this client sent. Called when QEMU has
 * dropped all translated code, while no vCPU is in guest code.
 */
void tasks_begin_use(unsigned client);
/* Uses the layout that this client sent last. Called under the same conditions. */
void tasks_update(unsigned client);
/* The service stops using tasks. Any thread. */
void tasks_end_use(void);

/* True if the client has sent a layout, which means that it has recognised the guest. */
bool tasks_are_known(void);
/* Returns the vCPU's task. Its `va` is 0 if no task is known. */
const struct task *tasks_current(unsigned vcpu);
/*
 * Reads the task at `va` and notes that the vCPU runs it. Does not call listeners. `reader` is the
 * vCPU in whose callback this is called. NULL if the task cannot be read: then nothing changes.
 */
const struct task *tasks_note(unsigned vcpu, struct vcpu *reader, uint64_t va);
/* From now on the vCPU runs no known task. */
void tasks_forget(unsigned vcpu);
/*
 * True if the vCPU's task has got another address space, because it starts a program. False if it
 * has the same one as before, or none.
 */
bool tasks_check_space(struct vcpu *vcpu);
