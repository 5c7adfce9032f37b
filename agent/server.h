/* SPDX-License-Identifier: MIT */
/*
 * The agent's socket: one thread that talks with the clients.
 */
#pragma once

#include <stdbool.h>

/* `api`: version of QEMU's plugin interface. False: a message was printed. */
bool server_start(const char *path, unsigned api);
/* Ends the thread and removes the socket, when QEMU ends. */
void server_stop(void);
