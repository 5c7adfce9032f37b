/* SPDX-License-Identifier: MIT */
/* A QEMU with an agent in it. Registers and holds come from the agent, all else from QMP. */
#pragma once

#include "machine/agent/link.h"
#include <vmscope/machine.h>

/*
 * Checks that the agent can hold vCPUs. Errors: UNSUPPORTED (QEMU runs several vCPUs in one thread,
 * or the agent is too old).
 */
bool vms_agent_check_holds(const struct vms_agent_link *link, GError **error);

/*
 * Opens the machine. Takes ownership of the link, also on errors. `qmp`: addresses, see
 * vms_qemu_open. Errors: those
 * of vms_qemu_open, UNSUPPORTED (the architecture), PERMISSION (QEMU's memory may not be read).
 */
struct vms_machine *vms_agent_machine_open(struct vms_agent_link *link, const char *const *qmp,
					   GError **error);
