/* SPDX-License-Identifier: MIT */
/*
 * Gives the directory the names of what was called: asks the guest for its kernel's symbols, its
 * modules, and for what its processes map. Used by the thread that the directory belongs to.
 */
#pragma once

#include "calls/directory.h"
#include "machine/agent/protocol.h"
#include <vmscope/guest.h>

typedef struct vms_calls_names vms_calls_names;

/*
 * `directory` and `guest` are the caller's, and longer there. `sysroot`: a directory with the
 * guest's files, or NULL. `is_late`: may the address space `mm` that was just read be gone, and
 * another in its place, before we were told?
 */
struct vms_calls_names *vms_calls_names_new(struct vms_calls_directory *directory,
					    struct vms_guest *guest, const char *sysroot,
					    bool (*is_late)(uint64_t mm, void *data), void *data);
void vms_calls_names_free(struct vms_calls_names *names);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls_names, vms_calls_names_free)

/* The kernel and its modules, as the guest knows them now; before the guest was recognised nothing
 * is asked of it. */
void vms_calls_names_kernel(struct vms_calls_names *names);
/* The user addresses of stream `id` are in this address space from here on. */
void vms_calls_names_space(struct vms_calls_names *names, uint64_t id,
			   const struct vms_calls_space *space);
/*
 * The address space is about to go: all that it maps is read, unless it is `gone` already. Where
 * its `mm` is 0, any may be gone: of those that were there, only those are read on whose task has
 * them still.
 */
void vms_calls_names_last(struct vms_calls_names *names, const struct vms_calls_space *space,
			  bool gone);
/* Reads again what living processes map, where that has changed. */
void vms_calls_names_refresh(struct vms_calls_names *names);
/* The same, where something was read that `is_late` has put in doubt: when less may be late. */
void vms_calls_names_retry(struct vms_calls_names *names);
