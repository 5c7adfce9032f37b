/* SPDX-License-Identifier: MIT */
#pragma once

#include "machine/qemu/qmp.h"

/*
 * Stops a running machine for a moment, which brings all of its vCPUs to the agent: while nobody is
 * there, their code does not come to it (`watched` in protocol.h). A guard lets the machine go on,
 * whatever happens to this process.
 */
void vms_agent_wake(struct vms_qmp *qmp);
