/* SPDX-License-Identifier: MIT */
/*
 * Names the called functions in the directory. It asks the guest for the symbols of its kernel, its
 * modules, and the mappings of its processes. Only the thread that owns the directory may call
 * this.
 */
#pragma once

#include "calls/directory.h"
#include "machine/agent/protocol.h"
#include <vmscope/guest.h>

typedef struct vms_calls_names vms_calls_names;

/*
 * `directory`, `guest` and `sysroot` must outlive the names. `sysroot` is a directory with the
 * guest's files, or NULL. `is_late` returns true if the address space `mm`, which was just read,
 * may have ended without notice, so that another one may be in its place.
 */
struct vms_calls_names *vms_calls_names_new(struct vms_calls_directory *directory,
					    struct vms_guest *guest, const char *sysroot,
					    bool (*is_late)(uint64_t mm, void *data), void *data);
void vms_calls_names_free(struct vms_calls_names *names);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls_names, vms_calls_names_free)

/*
 * Reads the kernel and its modules as the guest has them now. Reads nothing of a guest that is not
 * recognised yet.
 */
void vms_calls_names_update_kernel(struct vms_calls_names *names);
/* From its next record on, the user addresses of stream `id` are in this space. */
void vms_calls_names_enter_space(struct vms_calls_names *names, uint64_t id,
				 const struct vms_calls_space *space);
/*
 * Reads the mappings of an address space that is about to end, unless it is `gone` already. If its
 * `mm` is 0, any address space may have ended: then this forgets all that the guest does not show
 * to be in use.
 */
void vms_calls_names_end_space(struct vms_calls_names *names, const struct vms_calls_space *space,
			       bool gone);
/* Reads the mappings of living processes again if they have changed. */
void vms_calls_names_refresh(struct vms_calls_names *names);
/* Does the same, but only if `is_late` was true for something that was read. */
void vms_calls_names_retry(struct vms_calls_names *names);
