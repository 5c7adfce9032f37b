/* SPDX-License-Identifier: MIT */
/*
 * Holds vCPUs for clients, as described in machine/agent/protocol.h.
 */
#pragma once

#include "agent/service.h"

extern const struct service hold_service;

/*
 * Makes the shared memory of a client. Returns its descriptor, which the caller owns. -1 with errno
 * set.
 */
int hold_open(unsigned client, uint64_t *size);
/* Ends all holds of a client. */
void hold_break(unsigned client);
/* True if the client has requested or holds any vCPU. */
bool hold_any(unsigned client);
/* The same for all clients. */
bool hold_any_vcpu(void);
