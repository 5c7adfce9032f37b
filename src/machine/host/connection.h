/* SPDX-License-Identifier: MIT */
/*
 * Finds out who serves a connection: the process that has the socket at its other end open. The
 * peer of identity.h does not tell that: the process that called listen(2) may have handed the
 * socket to another one, as inetd and libvirt do.
 */
#pragma once

#include "machine/host/identity.h"

/*
 * The inode of the socket at the other end of a connected unix or TCP socket. 0 if that is not
 * known: the peer has gone, or has not accepted the connection yet; or it is on another host or,
 * for TCP, in another network namespace; or the kernel has no unix_diag.
 */
uint64_t vms_host_connection_inode(int fd);

/* True if the process has that socket open. False if this user may not see its open files. */
bool vms_host_has_socket(pid_t pid, uint64_t inode);

/*
 * The first process that has that socket open and is wanted, as far as this user may see;
 * `is_wanted` NULL: any. 0: none.
 */
pid_t vms_host_find_process_with_socket(uint64_t inode, bool (*is_wanted)(pid_t pid));

/*
 * Says who is served while this connection to a unix socket waits: "process 1234 (libvirtd)", newly
 * allocated, fit for a terminal. NULL if it is nobody, or is not known: see
 * vms_host_connection_inode; this user may not see it; or the socket was handed on by the process
 * that called listen(2). This process and its children, which may have its connections, are not
 * meant: a server may have accepted this very connection, and say nothing.
 */
char *vms_host_connection_rival(int fd);

/*
 * True if that process serves the connection. Call it after the process has answered: before, it
 * need not have accepted the connection. If this user may not see its open files, or the inode is
 * not known, it is enough that the process is the peer of the unix socket.
 */
bool vms_host_identity_serves(const struct vms_host_identity *identity, int fd);
