/* SPDX-License-Identifier: MIT */
/* Makes a trace follow switches of tasks and the address spaces of tasks (tasks/tasks.h). */
#pragma once

#include "agent/calls/trace.h"

/* From now on traces follow tasks. Called once, when QEMU installs the plugin. */
void follow_tasks(void);
/*
 * Tracks a new address space of the vCPU's task. Called when the kernel returns to user code, in a
 * callback of the vCPU, between tracer_enter and tracer_leave.
 */
void follow_space(struct tracer *tracer, struct vcpu *vcpu);
