/* SPDX-License-Identifier: MIT */
/*
 * The label of what a process of vmscope leaves in QEMU or on a disk for a while. It tells the next
 * one whose that is, and whether its owner is alive. A pid alone cannot tell: a container has
 * pids of its own, and a pid is used again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Every label begins so. */
#define VMS_OWNER_PREFIX "vmscope-"

struct vms_owner {
	pid_t pid;
	uint64_t start_time;	/* as of vms_process_start_time; 0: unknown */
	uint64_t pid_namespace; /* inode of /proc/PID/ns/pid; 0: unknown */
	uint32_t boot;		/* the first digits of the host's boot id; 0: unknown */
};

enum vms_owner_state {
	VMS_OWNER_OURS, /* this very process */
	VMS_OWNER_ALIVE,
	VMS_OWNER_DEAD,
	/* Of another PID namespace, boot or host, or what /proc does not show: nobody can tell. */
	VMS_OWNER_UNKNOWN,
};

/* This process. */
struct vms_owner vms_owner_self(void);

/*
 * "vmscope-PID-STARTTIME-NAMESPACE-BOOT", newly allocated. It begins with a letter and has only
 * letters, digits and '-', as QEMU wants it of ids.
 */
char *vms_owner_label(const struct vms_owner *owner);

/*
 * Reads a label. False for a text that is no label of vmscope. A label of another format, as of
 * another version, gives an owner of whom nothing is known.
 */
bool vms_owner_parse(const char *label, struct vms_owner *ret);

enum vms_owner_state vms_owner_state(const struct vms_owner *owner);
