/* SPDX-License-Identifier: MIT */
/*
 * Which task of the guest runs, by the offsets in Linux's task_struct that the client told, and
 * when address spaces go. In the vCPU's callback that may read registers, between tracer_enter and
 * tracer_leave.
 */
#pragma once

#include "trace.h"

/* Did the client tell how tasks are known? It has recognised the guest then. */
bool task_is_known(const struct tracer *tracer);
/* The vCPU goes on with the task whose task_struct lies at `va`. */
void task_switch(struct tracer *tracer, struct vcpu *vcpu, uint64_t va, uint64_t time);
/* The kernel is left for user code: has the task another address space than when it was entered? */
void task_check_space(struct tracer *tracer, struct vcpu *vcpu);
/* The address space `mm` is about to go: lets the client read what it maps. */
void task_exit_mm(struct tracer *tracer, uint64_t mm, uint64_t time);
