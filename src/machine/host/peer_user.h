/* SPDX-License-Identifier: MIT */
/* Finds out which user of this host has connected to a TCP socket of ours. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/* How the kernel tells whose a socket is. */
enum vms_peer_source {
	VMS_PEER_UNKNOWN,
	VMS_PEER_SOCK_DIAG,
	VMS_PEER_PROC_NET, /* reads the list of all sockets each time */
};

/*
 * Tries out, with a listening TCP socket of ours, by which way the kernel tells. Errors:
 * UNSUPPORTED, and UNKNOWN is returned: by none.
 */
enum vms_peer_source vms_peer_source_find(int listener, GError **error);

/*
 * The user who made the socket at the other end of an accepted TCP connection: the file system user
 * of that process at that time. False if that is not known, as the peer has closed its socket, or
 * is in another network namespace. The kernel says of a socket that was closed that it is root's,
 * so that only one that a process still has open counts.
 */
bool vms_peer_user(enum vms_peer_source source, int fd, uid_t *ret);
