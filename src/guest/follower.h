/* SPDX-License-Identifier: MIT */
/*
 * What changes in a guest while a job looks at it: its kernel boots, code is loaded into it, its
 * machine is reset. Here alone is known how each is noticed and what is to be read anew then. A
 * sampler reads anew when it meets code that it does not know, and ends at a reset
 * (vms_guest_is_stale); a trace follows its guest through all of that.
 */
#pragma once

#include <vmscope/guest.h>

/* What is known of a guest that was not known before. */
enum vms_guest_news {
	VMS_GUEST_NO_NEWS,
	VMS_GUEST_NEW_KERNEL, /* a kernel was recognised where none was */
	VMS_GUEST_NEW_CODE,   /* other modules are loaded */
};

/*
 * Reads anew what changes while a guest runs: looks for a kernel if none was recognised, else reads
 * what code is loaded. Nobody else may use the guest meanwhile. Errors, at which there is no news:
 * those of the machine and of vms_guest_refresh_modules.
 */
enum vms_guest_news vms_guest_refresh(struct vms_guest *guest, GError **error);

/* Follows a guest from one kernel to the next. One thread uses it. */
struct vms_guest_follower {
	struct vms_guest *guest; /* not owned */
	GMutex *lock;		 /* held while the guest is exchanged for what was found anew */
	bool runs_programs;	 /* since its last reset: set by the job, under the lock */
	bool was_reset;		 /* once at least */
	bool is_void;		 /* nothing was recognised since */
	bool is_settled;	 /* looking at all of the guest again would not tell more */
	unsigned n_looks;	 /* at all of it */
	uint64_t next_look_ns;	 /* when the next one is due */
	uint64_t refreshed_ns;	 /* when it was read anew last */
};

/* Why to look at a guest. */
enum vms_guest_sign {
	VMS_GUEST_ASKS = 1 << 0,    /* it has come to where more is to be seen of it */
	VMS_GUEST_GOES_ON = 1 << 1, /* time passes: look now and then, whatever it does */
};

/* Begins with what is known of the guest, and reads what code is loaded. */
void vms_guest_follower_init(struct vms_guest_follower *follower, struct vms_guest *guest,
			     GMutex *lock);
/*
 * True once after each reset of the machine. What is known of the guest is that of the time before
 * it, until vms_guest_follow tells of something else.
 */
bool vms_guest_follower_was_reset(struct vms_guest_follower *follower);
/*
 * Looks at the guest where that is due; `signs` are of enum vms_guest_sign. True if more is known
 * of its code than before, or other code. What cannot be read now may be later: that is no error.
 */
bool vms_guest_follow(struct vms_guest_follower *follower, unsigned signs);
