/* SPDX-License-Identifier: MIT */
/*
 * Turns at every so many instructions of each vCPU, which the agent gives: the vCPU stands still
 * until its turn is done.
 */
#pragma once

#include <stdbool.h>
#include <vmscope/machine.h>

struct vms_turns;

/*
 * Begins to count instructions. Errors: UNSUPPORTED (the machine has no agent, or one that cannot),
 * BUSY (somebody else counts), INVALID_ARGUMENT, and those of vms_agent_link_open.
 */
struct vms_turns *vms_turns_start(struct vms_machine *machine, uint64_t instructions,
				  GError **error);
/* Lets all vCPUs go on. NULL is allowed. */
void vms_turns_free(struct vms_turns *turns);
/*
 * Waits for a turn of a vCPU for a moment. True if it has one. A thread for each vCPU may wait; it
 * must end the turn.
 */
bool vms_turns_wait(struct vms_turns *turns, unsigned vcpu);
void vms_turns_end(struct vms_turns *turns, unsigned vcpu);
/* How many turns of a vCPU there were, with those that it did not wait for. Any thread. */
uint64_t vms_turns_count(const struct vms_turns *turns, unsigned vcpu);
