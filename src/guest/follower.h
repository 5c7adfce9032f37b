/* SPDX-License-Identifier: MIT */
/*
 * Changes of a guest while a job looks at it: its kernel boots, code is loaded into it, its machine
 * is reset. This file alone knows how each change is noticed and what must be read anew. A sampler
 * reads modules anew when it meets unknown code, and ends at a reset (vms_guest_is_stale). A trace
 * follows its guest through all changes.
 */
#pragma once

#include <vmscope/guest.h>

/* What became known of a guest. */
enum vms_guest_news {
	VMS_GUEST_NO_NEWS,
	VMS_GUEST_NEW_KERNEL, /* a kernel was recognised, and none was before */
	VMS_GUEST_NEW_CODE,   /* other modules are loaded */
};

/*
 * Looks for a kernel if none was recognised; otherwise reads the modules anew. No other thread may
 * use the guest meanwhile. An error comes with VMS_GUEST_NO_NEWS. Errors: those of the machine and
 * of vms_guest_refresh_modules.
 */
enum vms_guest_news vms_guest_refresh(struct vms_guest *guest, GError **error);

/* Follows a guest from one kernel to the next. Only one thread may use it. */
struct vms_guest_follower {
	struct vms_guest *guest; /* not owned */
	GMutex *lock;		 /* held while the guest is exchanged for what was found anew */
	bool runs_programs;	 /* it has run some since its last reset; the job sets it, locked */
	bool was_reset;		 /* the machine was reset at least once */
	bool is_void;		 /* nothing was recognised since the last reset */
	bool is_settled;	 /* detecting the guest anew would tell nothing more */
	unsigned n_looks;	 /* how often it was detected anew */
	uint64_t next_look_ns;	 /* when it may be detected anew next */
	uint64_t refreshed_ns;	 /* when the modules were read last */
};

/* Why to look at a guest. */
enum vms_guest_sign {
	VMS_GUEST_ASKS = 1 << 0,    /* the guest has reached a point where it shows more */
	VMS_GUEST_GOES_ON = 1 << 1, /* time passes: look from time to time */
};

/* Begins to follow a guest, and reads its modules if a kernel is recognised. */
void vms_guest_follower_init(struct vms_guest_follower *follower, struct vms_guest *guest,
			     GMutex *lock);
/*
 * True once after each reset of the machine. What is known of the guest is from before the reset,
 * until vms_guest_follow returns true.
 */
bool vms_guest_follower_was_reset(struct vms_guest_follower *follower);
/*
 * Looks at the guest if that is due. `signs` are of enum vms_guest_sign. True if more of its code
 * became known, or other code. It is no error if the guest cannot be read now: it is read later.
 */
bool vms_guest_follow(struct vms_guest_follower *follower, unsigned signs);
