/* SPDX-License-Identifier: MIT */
/*
 * Looks: a vCPU waits until the client has looked at the guest, because something is new: the
 * kernel runs, the first program runs, or a module's code begins. The code that the guest executes
 * decides when that happens, not the host's time. So in two traces of the same guest the client
 * recognises it at the same instruction.
 */
#pragma once

#include "agent/calls/trace.h"

/* Asks for a look if a translated block requires one. Between tracer_enter and tracer_leave. */
void look_at_block(struct tracer *tracer, unsigned vcpu, uint64_t va, unsigned rank);
/* A callback at the begin of a function with VMS_AGENT_FUNCTION_LOOK: asks for a look. */
void look_at_function(unsigned vcpu, void *data);
/*
 * Notes that the client has made the look that it had begun. From a thread that keeps the trace
 * from ending.
 */
void look_answer(struct trace *trace);
/* Waits for a moment if this vCPU's look is not answered. False if it need not wait any more. */
bool look_wait(struct vcpu *vcpu);
