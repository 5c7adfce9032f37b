/* SPDX-License-Identifier: MIT */
/*
 * Who serves a connection: the process that has the socket at its other end open. That is more than
 * the peer of identity.h tells: who called listen(2) may have handed the socket to another process,
 * as inetd and libvirt do.
 */
#pragma once

#include "machine/host/identity.h"

/*
 * The inode of the socket at the other end of a connected unix or TCP socket. 0 where that is not
 * known: the peer has gone or has not accepted the connection yet, it is on another host or, for
 * TCP, in another network namespace, or the kernel has no unix_diag.
 */
uint64_t vms_host_connection_inode(int fd);

/* Has the process that socket open? False also where its files may not be seen. */
bool vms_host_has_socket(pid_t pid, uint64_t inode);

/*
 * Does that process serve the connection? To be asked when it has answered, as it need not have
 * accepted the connection before. Where its files may not be seen, or the inode is not known, its
 * being the peer of the unix socket is taken for it.
 */
bool vms_host_identity_serves(const struct vms_host_identity *identity, int fd);
