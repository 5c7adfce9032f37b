/* SPDX-License-Identifier: MIT */
/* A QEMU with an agent in it. The agent gives registers and holds; all else comes from QMP. */
#pragma once

#include "machine/agent/link.h"
#include <vmscope/machine.h>

/* True if the vCPUs can be held. False if QEMU runs several of them in one thread. */
bool vms_agent_can_hold(const struct vms_agent_link *link);

/*
 * Takes ownership of the link, also on errors. `qmp`: addresses, see vms_qemu_open. Errors: those
 * of vms_qemu_open, UNSUPPORTED (the architecture), PERMISSION (QEMU's memory may not be read).
 */
struct vms_machine *vms_agent_machine_open(struct vms_agent_link *link, const char *const *qmp,
					   GError **error);
