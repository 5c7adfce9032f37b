/* SPDX-License-Identifier: MIT */
/*
 * Looks: a vCPU waits until the client has looked at the guest, because there is something new: its
 * kernel runs, its first program runs, or a module's code begins. What the guest executes decides
 * when that is, not the host's time. So the client understands a guest that is traced twice from
 * the same instruction on.
 */
#pragma once

#include "agent/calls/trace.h"

/* Asks for a look if a translated block is a reason. Between tracer_enter and tracer_leave. */
void look_at_block(struct tracer *tracer, unsigned vcpu, uint64_t va, unsigned rank);
/* A callback at the begin of a function with VMS_AGENT_FUNCTION_LOOK. Asks for a look. */
void look_at_function(unsigned vcpu, void *data);
/* Notes that the client has looked. From a thread that keeps the trace from ending. */
void look_answer(struct trace *trace);
/* Waits a little if a look of this vCPU is not answered. False: it has none, or its time is over.
 */
bool look_wait(struct vcpu *vcpu);
