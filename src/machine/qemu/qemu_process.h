/* SPDX-License-Identifier: MIT */
/* A process that may run a machine, as /proc shows it. */
#pragma once

#include "machine/host/identity.h"
#include "machine/qemu/cmdline.h"
#include <sys/types.h>

struct vms_host_process {
	pid_t pid;
	char *program; /* name of its executable */
	bool is_qemu;
	bool uses_kvm;	/* false if this user may not see its open files */
	unsigned vcpus; /* of KVM; 0 if this user may not see its open files */
	struct vms_cmdline cmdline;
};

/* True if a program of this name is a QEMU that runs machines. */
bool vms_host_process_is_qemu(const char *name);

/*
 * Reads what /proc shows of a process. The caller clears it when this returns true. Errors:
 * NOT_FOUND (no such process), PERMISSION.
 */
bool vms_host_process_read(pid_t pid, struct vms_host_process *ret, GError **error);
void vms_host_process_clear(struct vms_host_process *process);

/*
 * Finds the QEMU that serves a connection of this host (machine/host/connection.h). The caller
 * closes its identity when this returns true. False, with the identity of nobody, if there is none,
 * or none that this user may see. Then the memory of no process may be read, whatever the peer
 * says.
 */
bool vms_host_process_of_connection(int fd, struct vms_host_identity *ret);

/*
 * The QEMU that listens on a unix socket, by its path as this process sees it, without connecting
 * to it. 0 if there is none, or none that this user may see.
 */
pid_t vms_host_process_behind(const char *path);

/*
 * The addresses of a QEMU's QMP sockets, as this process sees them: NULL-terminated, newly
 * allocated. Sockets that are free at this moment come first, and of these the last one of the
 * command line. With `must_be_free` it fails if none is free; a caller that can wait for a socket
 * does not set it. Errors: UNSUPPORTED (not QEMU, or no socket), NOT_FOUND, PERMISSION, BUSY (none
 * is free).
 */
char **vms_host_process_qmp(const struct vms_host_process *process, bool must_be_free,
			    GError **error);
/*
 * The path of the socket of the agent that QEMU was started with, as this process sees it. Newly
 * allocated, or NULL.
 */
char *vms_host_process_agent(const struct vms_host_process *process);
