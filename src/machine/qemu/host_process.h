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
	bool uses_kvm;	/* as far as its files may be seen */
	unsigned vcpus; /* KVM's, as far as its files may be seen */
	struct vms_cmdline cmdline;
};

/* "/proc/PID/NAME", newly allocated. */
char *vms_host_process_path(pid_t pid, const char *name);

/* Is that the name of a QEMU that runs machines? */
bool vms_host_process_is_qemu(const char *name);

/* Errors: NOT_FOUND (no such process), PERMISSION. To be cleared when true. */
bool vms_host_process_read(pid_t pid, struct vms_host_process *ret, GError **error);
void vms_host_process_clear(struct vms_host_process *process);

/*
 * The QEMU that serves a connection of this host (machine/host/connection.h). False, with nobody,
 * where there is none, or none that may be seen; memory of any other process is not to be read at
 * the word of who answers. To be closed when true.
 */
bool vms_host_process_of_connection(int fd, struct vms_host_identity *ret);

/*
 * Where to connect to the QMP sockets of a QEMU, as we see them: NULL-terminated, those that are
 * free at this moment first, of these the last of its command line first, newly allocated. Errors:
 * UNSUPPORTED (not QEMU, or no socket), NOT_FOUND, PERMISSION; where one must be free at this
 * moment, BUSY. Who is going to wait for it need not ask: it may become free meanwhile.
 */
char **vms_host_process_qmp(const struct vms_host_process *process, bool must_be_free,
			    GError **error);
/* The socket of the agent that it was started with, as we see it, newly allocated, or NULL. */
char *vms_host_process_agent(const struct vms_host_process *process);
