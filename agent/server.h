/* SPDX-License-Identifier: MIT */
/*
 * The agent's socket. One thread serves all clients.
 */
#pragma once

#include <stdbool.h>

/* `api`: version of QEMU's plugin interface. False with a message on stderr. */
bool server_start(const char *path, unsigned api);
/* Ends the thread and removes the socket, when QEMU ends. */
void server_stop(void);
