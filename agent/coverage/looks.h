/* SPDX-License-Identifier: MIT */
/*
 * Looks: a vCPU that is about to run a module's code for the first time waits until the client has
 * looked at the guest. So no block of it is taken for one of a module that was there before.
 */
#pragma once

#include "agent/coverage/instrument.h"

/* Asks the client, unless it has not answered the last look. The lock is held. */
void looks_ask(struct coverage *coverage, unsigned vcpu);
/* True if a look of this vCPU is not answered, and its time is not over. The lock is held. */
bool looks_is_awaited(const struct coverage *coverage, unsigned vcpu);
/* Waits a little, in a vCPU that was kicked. No lock is held. */
void looks_wait(void);
