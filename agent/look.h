/* SPDX-License-Identifier: MIT */
/*
 * Looks: moments at which a vCPU waits until the client has looked at the guest, because more is to
 * be seen of it now: its kernel runs, its first program, a module's code. What the guest executes
 * decides on these moments, not the host's time. So a guest that is traced twice is understood from
 * the same instruction on.
 */
#pragma once

#include "trace.h"

/* Of a block that is translated. Whoever calls is inside. */
void look_at_block(struct tracer *tracer, unsigned vcpu, uint64_t va, unsigned rank);
/* A callback where a function begins that has VMS_AGENT_FUNCTION_LOOK. */
void look_at_function(unsigned vcpu, void *data);
/* The client has looked, and what it tells is on its way. From any thread that has the trace. */
void look_answer(struct trace *trace);
/* Waits a little where a look of this vCPU is to be answered still. False: there is none. */
bool look_wait(struct vcpu *vcpu);
