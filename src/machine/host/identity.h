/* SPDX-License-Identifier: MIT */
/*
 * The identity of a process of this host. When a process has ended, another one may get its pid,
 * but never its pidfd or its start time.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* All zeros is the identity of nobody. */
struct vms_host_identity {
	pid_t pid;
	int pidfd;	     /* close-on-exec; -1 where the kernel has none (before Linux 5.3) */
	uint64_t start_time; /* in clock ticks since the host's boot */
};

/*
 * Takes the identity of the process that has this pid now. When it returns true, the caller closes
 * the identity. Errors: NOT_FOUND (no such process, or it has ended), PERMISSION (/proc does not
 * show it), IO.
 */
bool vms_host_identity_open(struct vms_host_identity *ret, pid_t pid, GError **error);

/* The functions below take no lock and allocate nothing. */

/*
 * Takes the identity of the peer of a connected unix socket: the process that called listen(2),
 * connect(2) or socketpair(2) at its other end (SO_PEERCRED, unix(7)). A process that has inherited
 * that socket is not its peer. When it returns true, the caller closes the identity. False, with
 * the identity of nobody, if the peer has ended, is in a PID namespace that we do not see, or is
 * not shown by /proc.
 *
 * Before Linux 6.5, which has no SO_PEERPIDFD, it takes the process that has the peer's pid now. If
 * the peer has ended, that may be another process.
 */
bool vms_host_identity_open_peer(struct vms_host_identity *ret, int socket_fd);

/* Closes an identity, which becomes that of nobody. Allowed for the identity of nobody. */
void vms_host_identity_close(struct vms_host_identity *identity);

/* True if the process is alive. A zombie is not, and nobody is not. For any thread. */
bool vms_host_identity_is_alive(const struct vms_host_identity *identity);

/* True if the peer of a connected unix socket (see above) is this very process, and is alive. */
bool vms_host_identity_is_peer(const struct vms_host_identity *identity, int socket_fd);
