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
/*
 * A vCPU stands still in a callback of its code, where it may read registers, and is about to
 * execute the instruction at `pc`. Clients can hold it as if it were halted, until it goes on. For
 * the vCPU's own thread, which does not hold QEMU's big lock.
 */
void hold_stand_still(struct vcpu *vcpu, uint64_t pc);
void hold_go_on(struct vcpu *vcpu);
/* Ends all holds of a client. */
void hold_break(unsigned client);
/* True if the client has requested or holds any vCPU. */
bool hold_any(unsigned client);
/* The same for all clients. */
bool hold_any_vcpu(void);
