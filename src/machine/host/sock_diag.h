/* SPDX-License-Identifier: MIT */
/* Asks the kernel about one socket of this host: sock_diag(7). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Sends a request about one socket, and receives the reply, of at most *size bytes, which *size
 * becomes. Only the kernel can send on such a socket. False if it does not answer: it has no
 * sock_diag. A socket that it does not find, or of a kind that it has no diagnostics for, is a
 * reply of NLMSG_ERROR.
 */
bool vms_sock_diag_ask(const void *request, size_t request_size, void *reply, size_t *size);
