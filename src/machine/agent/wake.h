/* SPDX-License-Identifier: MIT */
#pragma once

#include "machine/qemu/qmp.h"

/*
 * Stops a running machine for a moment, which brings all of its vCPUs to the agent: as long as
 * nobody watches, a loop that calls nothing and that no interrupt reaches does not come there by
 * itself (agent/vcpu.h). A guard lets the machine go on, whatever happens to this process.
 */
void vms_agent_wake(struct vms_qmp *qmp);
