/* SPDX-License-Identifier: MIT */
/* What the two halves of the holder share: holder.c in the tool, holder_life.c in the process. */
#pragma once

#include "machine/kvm/holder.h"
#include "machine/kvm/stop_poll.h"

/*
 * STOPPING: the thread was asked to stop, and has not said yet that it has. WATCHED: it is not
 * stopped, but sleeps in its monitor's code; if it has run at the end of the hold, that counts as
 * broken.
 */
enum vms_kvm_phase { IDLE, STOPPING, HELD, WATCHED };

/* What the holder knows of a slot. */
struct vms_kvm_watch {
	enum vms_kvm_phase phase;
	uint32_t number; /* of the hold that is under way */
	pid_t tid;	 /* whose file `call` is; 0: none */
	int call;	 /* /proc/PID/task/TID/syscall */
	int schedule;	 /* /proc/PID/task/TID/schedstat, or -1 */
	/* How often it had got a processor when it was stopped or read last; 0: not known. */
	uint64_t seen_turns;
	struct vms_kvm_poll poll; /* for its stops */

	int signal; /* that the thread was about to get when it stopped; 0: none */
	uint64_t wanted_ns, begin_ns, not_before_ns, refused_ns;
	unsigned tries;
	bool is_stored; /* the registers in the page are those of the vCPU's last exit */
};

struct vms_kvm_shared {
	unsigned n;
	struct vms_kvm_slot slots[];
};

struct vms_kvm_holder {
	const struct vms_host_identity *process; /* the monitor's; borrowed */
	int memory;				 /* its /proc/PID/mem; borrowed */
	struct vms_kvm_shared *shared;
	size_t shared_size;
	struct vms_kvm_watch *watches; /* in the holder: one per slot */
	pid_t pid;
	uint32_t *numbers; /* of the last hold of each slot */
	bool may_spin;	   /* the host has processors to spare */
	GMutex lock;	   /* for vms_kvm_holder_check */
	int *files;
	size_t n_files;
	int wake;	    /* eventfd */
	int keeper, kept;   /* a pipe: when `keeper` is closed, the holder ends */
	int tool;	    /* pidfd of this process */
	int stopped;	    /* in the holder: signalfd for SIGCHLD */
	char stat_path[32]; /* of this process */
	uint64_t tool_check_ns;
	bool tool_stood_still;
};

/* The life of the holder. It ends with the tool, with the monitor, or if the tool wants it. */
void vms_kvm_holder_live(void *holder);
