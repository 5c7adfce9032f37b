/* SPDX-License-Identifier: MIT */
/* The TCP sockets of this network namespace, as proc_net(5) lists them. */
#pragma once

#include "base/proc_text.h"
#include <sys/socket.h>

/*
 * Finds the socket that is bound to `local` and connected to `remote` (all zeros: it listens).
 * Reads the whole list. False if there is none, or the addresses are not of one family of TCP's.
 */
bool vms_tcp_list_find(const struct sockaddr_storage *local, const struct sockaddr_storage *remote,
		       struct vms_proc_tcp *ret);
