/* SPDX-License-Identifier: MIT */
/* Stacks of vCPUs and threads, walked while the machine is held, and shown after it runs again. */
#pragma once

#include "session.h"

struct walked {
	unsigned id; /* vCPU or thread */
	struct vms_task task;
	const struct vms_process *process; /* NULL if unknown */
	struct vms_stack stack;		   /* its last member: only its frames are allocated */
};

/*
 * These walk stacks of a held machine, and append them to an array of struct walked, which owns
 * them by g_free. All vCPUs, or the one that `cpu` names:
 */
bool walk_vcpus(struct session *session, const char *cpu, GPtrArray *stacks, GError **error);
/* One thread. */
bool walk_task(struct session *session, unsigned tid, GPtrArray *stacks, GError **error);
/*
 * All threads, or those whose state is one of the letters in `states`. If some cannot be walked,
 * or lists of them are damaged, it notes a loss in the session.
 */
bool walk_all_tasks(struct session *session, const char *states, GPtrArray *stacks, GError **error);
