/* SPDX-License-Identifier: MIT */
/*
 * The label of what a process of vmscope adds to QEMU or to a disk for a while. It tells the next
 * vmscope which process the owner is, and whether that is alive. A pid alone cannot tell: a
 * container has pids of its own, and the kernel uses a pid again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Every label begins with this. */
#define VMS_OWNER_PREFIX "vmscope-"

struct vms_owner {
	pid_t pid;
	uint64_t start_time;	/* as of vms_process_start_time; 0: unknown */
	uint64_t pid_namespace; /* inode of /proc/PID/ns/pid; 0: unknown */
	uint32_t boot;		/* the first eight digits of the host's boot id; 0: unknown */
};

enum vms_owner_state {
	VMS_OWNER_OURS, /* this very process */
	VMS_OWNER_ALIVE,
	VMS_OWNER_DEAD,
	/* Another PID namespace, boot or host, or /proc does not show it: nobody can tell. */
	VMS_OWNER_UNKNOWN,
};

/* This process. */
struct vms_owner vms_owner_self(void);

/*
 * "vmscope-PID-STARTTIME-NAMESPACE-BOOT", newly allocated. It begins with a letter and has only
 * letters, digits and '-', as QEMU requires of its ids.
 */
char *vms_owner_label(const struct vms_owner *owner);

/*
 * Reads a label. False if the text is no label of vmscope. A label of another format, which another
 * version of vmscope may write, gives an owner whose fields are all unknown (0).
 */
bool vms_owner_parse(const char *label, struct vms_owner *ret);

enum vms_owner_state vms_owner_state(const struct vms_owner *owner);
