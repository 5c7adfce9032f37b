/* SPDX-License-Identifier: MIT */
/* What a trace does when tasks switch, get new address spaces, or end them (tasks/tasks.h). */
#pragma once

#include "agent/calls/trace.h"

/* Has traces follow tasks from now on. Called once, when QEMU installs the plugin. */
void follow_tasks(void);
/*
 * Tracks a new address space of the vCPU's task. Called when the kernel is left for user code, in a
 * callback of the vCPU, between tracer_enter and tracer_leave.
 */
void follow_space(struct tracer *tracer, struct vcpu *vcpu);
