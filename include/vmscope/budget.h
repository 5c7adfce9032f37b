/* SPDX-License-Identifier: MIT */
/*
 * Budgets: what may be spent on interpreting data that somebody else made. A guest, its disks, a
 * process, a recording, a core file or a peer chooses how many structures its data have, so limits
 * of single structures do not bound the cost of all of them. A budget does.
 *
 * Copying memory, taking samples and writing results are not counted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

typedef struct vms_budget vms_budget;

/* What a budget has, in all. 0 stands for the default. */
struct vms_budget_options {
	size_t size;	       /* of this struct */
	uint64_t processor_ns; /* processor time; 4 s */
	uint64_t bytes;	       /* memory that is kept; 256 MiB */
	uint64_t items;	       /* entries of lists: tasks, mappings, files; a million */
	uint64_t printed;      /* bytes of output; 64 MiB */
	unsigned percent;      /* of a processor, which are added while time passes; none */
	/*
	 * The path of a program that serves as a jail (vms_jail_serve), as the vmscope command
	 * does: what is worst to parse is then parsed in a process of it that has no rights. NULL:
	 * it is parsed in place.
	 */
	const char *jail;
};

/*
 * Makes a budget. `options` may be NULL. Processor time is counted in steps of about 20 ns, not
 * measured, so the same data always cost the same. Errors: INVALID_ARGUMENT, UNSUPPORTED (as those
 * of all options).
 */
struct vms_budget *vms_budget_new(const struct vms_budget_options *options, GError **error);
struct vms_budget *vms_budget_ref(struct vms_budget *budget);
void vms_budget_unref(struct vms_budget *budget);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_budget, vms_budget_unref)

/*
 * Ends all work on a budget and its parts as soon as each next looks, which is within a
 * millisecond of work. For any thread, and for signal handlers.
 */
void vms_budget_cancel(struct vms_budget *budget);
/*
 * Leaves 50 ms of processor time to what is still to be done: to name what was sampled, when
 * somebody has asked for the end. For any thread, and for signal handlers.
 */
void vms_budget_hurry(struct vms_budget *budget);
/*
 * Returns what was left out because a part of the budget was used up, each source with its reason:
 * "the guest's disks: more than 1.0 s of processor time". NULL if nothing was. Newly allocated. For
 * any thread.
 */
char *vms_budget_describe_losses(struct vms_budget *budget);

VMS_END_DECLS
