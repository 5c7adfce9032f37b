/* SPDX-License-Identifier: MIT */
/*
 * The identity of a process of this host. A pid alone is another process's once this one has ended;
 * its pidfd and its start time are never.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* All zeros is nobody's identity. */
struct vms_host_identity {
	pid_t pid;
	int pidfd;	     /* close-on-exec; -1 where the kernel has none (before Linux 5.3) */
	uint64_t start_time; /* in clock ticks since the host's boot */
};

/*
 * Takes the identity of the process that has this pid now. To be closed when true. Errors:
 * NOT_FOUND (no such process, or it has ended), PERMISSION (/proc does not show it), IO.
 */
bool vms_host_identity_open(struct vms_host_identity *ret, pid_t pid, GError **error);

/* The rest takes no lock and allocates nothing. */

/*
 * Takes the identity of the peer of a connected unix socket: who called listen(2), connect(2) or
 * socketpair(2) at its other end (SO_PEERCRED, unix(7)). A process that has inherited that socket
 * is not its peer. False, with zeros, where the peer has ended, is in a PID namespace that we do
 * not see, or /proc does not show it. To be closed when true.
 *
 * Before Linux 6.5 (SO_PEERPIDFD) it is the process that has the peer's pid now: if the peer has
 * ended and another process has its pid, it is that one.
 */
bool vms_host_identity_open_peer(struct vms_host_identity *ret, int socket_fd);

/* Allowed for nobody's identity, which it becomes. */
void vms_host_identity_close(struct vms_host_identity *identity);

/* Is that process alive, which a zombie is not? Nobody is not. For any thread. */
bool vms_host_identity_is_alive(const struct vms_host_identity *identity);

/* Is the peer of a connected unix socket, as above, this very process, and alive? */
bool vms_host_identity_is_peer(const struct vms_host_identity *identity, int socket_fd);
