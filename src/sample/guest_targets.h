/* SPDX-License-Identifier: MIT */
/*
 * The targets of a sampler session in a guest: which threads to sample, as processes start and end.
 * The caller reads the lists of tasks and the ancestors of processes. Only one thread at a time may
 * use the targets.
 */
#pragma once

#include <vmscope/guest.h>
#include <vmscope/sampler.h>

struct vms_guest_targets;

/*
 * `read_cgroup` reads the path of a task's control group, newly allocated; NULL if it is not known.
 * It is called for targets that are control groups.
 */
struct vms_guest_targets *vms_guest_targets_new(char *(*read_cgroup)(const struct vms_task *task,
								     void *data),
						void *data);
void vms_guest_targets_free(struct vms_guest_targets *targets);

/* True if adding a target of this kind needs a list of tasks. */
bool vms_guest_targets_need_tasks(enum vms_sampler_target_kind kind);
/*
 * Adds a target. `tasks` is a current array of struct vms_task, or NULL if the target needs none.
 * Errors: NOT_FOUND, UNSUPPORTED.
 */
bool vms_guest_targets_add(struct vms_guest_targets *targets,
			   const struct vms_sampler_target *target, const GArray *tasks,
			   GError **error);
/*
 * Updates the targets by a list of tasks. The list was read from `from_ns` on, so a thread that
 * became known later has not ended if the list lacks it.
 */
void vms_guest_targets_follow(struct vms_guest_targets *targets, const GArray *tasks,
			      uint64_t from_ns);
/* True if processes of the targets may start and end, so lists of tasks are needed. */
bool vms_guest_targets_change(const struct vms_guest_targets *targets);

/* True if it is not known yet whether a process belongs to a target. */
bool vms_guest_targets_is_new(const struct vms_guest_targets *targets, uint32_t pid);
/* Notes the ancestors of a new process: `n` pids, the parent's first. */
void vms_guest_targets_note_birth(struct vms_guest_targets *targets, uint32_t pid,
				  const uint32_t *ancestors, size_t n, uint64_t time_ns);
/* Notes that a process runs under the name `comm`. It may be a target by its name. */
void vms_guest_targets_note_name(struct vms_guest_targets *targets, uint32_t pid, const char *comm,
				 uint64_t time_ns);
/* True if a thread belongs to a target. */
bool vms_guest_targets_has(const struct vms_guest_targets *targets, uint32_t pid, uint32_t tid);
/* True if all targets have ended. */
bool vms_guest_targets_ended(const struct vms_guest_targets *targets);
