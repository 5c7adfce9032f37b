/* SPDX-License-Identifier: MIT */
/*
 * Holds vCPUs for clients, as machine/agent/protocol.h says.
 */
#pragma once

#include "agent/service.h"

extern const struct service hold_service;

/*
 * Makes the shared memory of a client. Returns its descriptor, which is the caller's. -1: errno
 * tells.
 */
int hold_open(unsigned client, uint64_t *size);
/* Ends the holds of a client that is stopped. */
void hold_break(unsigned client);
/* True if the client wants or holds any vCPU. */
bool hold_any(unsigned client);
/* The same of all clients. */
bool hold_any_vcpu(void);
