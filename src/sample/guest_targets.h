/* SPDX-License-Identifier: MIT */
/*
 * Which threads of a guest are sampled, as its processes begin and end. It knows lists of tasks and
 * ancestors of processes, which others read. One thread at a time.
 */
#pragma once

#include <vmscope/guest.h>
#include <vmscope/sampler.h>

struct vms_guest_targets;

struct vms_guest_targets *vms_guest_targets_new(void);
void vms_guest_targets_free(struct vms_guest_targets *targets);

/* True if a target of that kind needs a list of tasks. */
bool vms_guest_targets_need_tasks(enum vms_sampler_target_kind kind);
/*
 * Adds a target. `tasks` is an array of struct vms_task, as they are now; NULL if the target needs
 * none. Errors: NOT_FOUND, UNSUPPORTED.
 */
bool vms_guest_targets_add(struct vms_guest_targets *targets,
			   const struct vms_sampler_target *target, const GArray *tasks,
			   GError **error);
/*
 * Follows births and ends. `tasks` were read from `from_ns` on: what became known later is not
 * missing among them.
 */
void vms_guest_targets_follow(struct vms_guest_targets *targets, const GArray *tasks,
			      uint64_t from_ns);
/* True if processes come and go: it has to follow tasks. */
bool vms_guest_targets_change(const struct vms_guest_targets *targets);

/* True if nothing is known of a process, neither that it belongs to a target nor that it does not.
 */
bool vms_guest_targets_is_new(const struct vms_guest_targets *targets, uint32_t pid);
/* Says whose child a new process is: `n` ancestors, the nearest first. */
void vms_guest_targets_note_birth(struct vms_guest_targets *targets, uint32_t pid,
				  const uint32_t *ancestors, size_t n, uint64_t time_ns);
/* A process runs now, under the name `comm`: it may be one that is waited for. */
void vms_guest_targets_note_name(struct vms_guest_targets *targets, uint32_t pid, const char *comm,
				 uint64_t time_ns);
/* True if a thread is sampled. */
bool vms_guest_targets_has(const struct vms_guest_targets *targets, uint32_t pid, uint32_t tid);
/* True if nothing is left that could run. */
bool vms_guest_targets_ended(const struct vms_guest_targets *targets);
