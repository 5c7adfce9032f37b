/* SPDX-License-Identifier: MIT */
/*
 * Stacks of vCPUs and threads. While the machine is held the kernel's half is walked and the user
 * half is copied. That is walked when it runs again.
 */
#pragma once

#include "session.h"

struct vms_user_copy;

struct walked {
	unsigned id; /* vCPU or thread */
	struct vms_task task;
	const struct vms_process *process; /* NULL if unknown */
	struct vms_user_copy *copy;	   /* the user half, until it is walked; or NULL */
	struct vms_stack stack;		   /* its last member: only its frames are allocated */
};
void free_walked(void *walked);

/*
 * These begin stacks of a held machine, and append them to an array of struct walked, which owns
 * them by free_walked. All vCPUs, or the one that `cpu` names:
 */
bool walk_vcpus(struct session *session, const char *cpu, GPtrArray *stacks, GError **error);
/* One thread. */
bool walk_task(struct session *session, unsigned tid, GPtrArray *stacks, GError **error);
/*
 * All threads, or those whose state is one of the letters in `states`. It holds the machine itself,
 * and lets one that would stand still for longer than `limit_ns` run for a moment, which it tells.
 * If some threads cannot be walked, or lists of them are damaged, it notes a loss in the session.
 */
bool walk_all_tasks(struct session *session, const char *states, uint64_t limit_ns,
		    GPtrArray *stacks, GError **error);
/* Walks the user halves. The machine may run. */
void finish_walks(struct session *session, GPtrArray *stacks);
