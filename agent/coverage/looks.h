/* SPDX-License-Identifier: MIT */
/*
 * Looks: a vCPU that is about to run a module's code for the first time waits until the client has
 * looked at the guest. So the client never takes a block of the new module for one of a module that
 * was at the same address before.
 */
#pragma once

#include "agent/coverage/instrument.h"

/*
 * Asks the client for a look. The vCPU waits for it, unless the client has not answered the last
 * one. The lock is held.
 */
void looks_ask(struct coverage *coverage, unsigned vcpu);
/* True if this vCPU must still wait for the answer to its look. The lock is held. */
bool looks_is_awaited(const struct coverage *coverage, unsigned vcpu);
/* Waits for a moment. Called in a vCPU that was kicked, without a lock. */
void looks_wait(void);
