/* SPDX-License-Identifier: MIT */
/* The inside of a guest, shared by the files of src/guest/ and by tests that bring a guest. */
#pragma once

#include "guest/operations.h"

struct vms_guest {
	gatomicrefcount refs;
	struct vms_machine *machine;
	const struct vms_guest_ops *ops; /* of the system that is looked for in it */
	void *system;			 /* what `ops` found, owned; NULL: nothing was recognised */
	struct vms_guest_info info;	 /* strings owned by `system` */
	char *why;
	struct vms_symbolizer *symbolizer; /* the one of `system`, or one without a kernel */
	uint64_t looked_ns, look_took_ns;  /* when it was last looked for, and for how long */
	uint64_t resets;		   /* of the machine, when it was looked for, or told of */
};

/* Was a system recognised, and has it this operation? */
#define VMS_GUEST_HAS(guest, operation) ((guest)->system && (guest)->ops->operation)

/* vms_guest_detect for one system, which need not be one that the library knows. */
struct vms_guest *vms_guest_detect_system(struct vms_machine *machine,
					  const struct vms_guest_ops *ops, GError **error);

/* ---- for follower.c: a guest that changes ----------------------------- */

/*
 * For a job that goes on through resets: vms_guest_is_stale, but true once for each. It is stale no
 * more then, though all that is known of it is as void.
 */
bool vms_guest_take_reset(struct vms_guest *guest);
/*
 * Looks again at a machine in which nothing was recognised: it may have booted since. True when an
 * operating system was recognised now. Looks for at most a tenth of the time, however often it is
 * called. Nobody else may use the guest meanwhile. Errors: none is also false.
 */
bool vms_guest_detect_again(struct vms_guest *guest, GError **error);
/* Finds out what runs in the same machine now, without the symbol files that were added. */
struct vms_guest *vms_guest_detect_other(const struct vms_guest *guest, GError **error);
/*
 * Was all of it understood that kernels have? One that boots may tell more later: detect it again
 * into another guest of the same machine, and exchange what both know of it. Symbol files stay
 * where they are. Nobody else may use the two meanwhile; all that `guest` gave before belongs to
 * `other`.
 */
bool vms_guest_is_complete(const struct vms_guest *guest);
void vms_guest_exchange(struct vms_guest *guest, struct vms_guest *other);
/*
 * A kernel that boots changes its page tables. Where its own are not known, those that a vCPU uses
 * now are looked through from now on; it is held for a moment. Errors: those of the machine.
 */
bool vms_guest_follow_tables(struct vms_guest *guest, GError **error);
