/* SPDX-License-Identifier: MIT */
/*
 * Holding vCPUs for clients, as machine/agent/protocol.h tells.
 */
#pragma once

#include "vcpu.h"

/* Makes the shared memory of client `client`; the descriptor is the caller's. -1: errno tells. */
int hold_open(unsigned client, uint64_t *size);
/* The client has gone: its holds end. */
void hold_close(unsigned client);
/* The client is stopped: its holds end. */
void hold_break(unsigned client);
/* Does the client want any vCPU? */
bool hold_any(unsigned client);
/* The client has asked for a vCPU. */
void hold_request(unsigned vcpu);

/* What vCPUs do, in their callbacks. */
void hold_vcpu_init(struct vcpu *vcpu);
void hold_vcpu_exit(struct vcpu *vcpu);
void hold_vcpu_idle(struct vcpu *vcpu);
void hold_vcpu_resume(struct vcpu *vcpu);
/* Idles from here on, to go on at `next`; called by its flag when it does. */
void hold_vcpu_halts(struct vcpu *vcpu, uint64_t next);
/* Called by its flag: waits while a client wants it held. */
void hold_vcpu_called(struct vcpu *vcpu);
