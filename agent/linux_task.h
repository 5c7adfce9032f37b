/* SPDX-License-Identifier: MIT */
/*
 * Which task of the guest runs, by the offsets in Linux's task_struct that the client sent, and
 * when address spaces end. All is called in a callback of the vCPU that may read registers, between
 * tracer_enter and tracer_leave.
 */
#pragma once

#include "trace.h"

/* True if the client sent these offsets: it has recognised the guest. */
bool task_is_known(const struct tracer *tracer);
/* The vCPU continues with the task whose task_struct lies at `va`. */
void task_switch(struct tracer *tracer, struct vcpu *vcpu, uint64_t va, uint64_t time);
/* Called when the kernel is left for user code: tracks a new address space of the task. */
void task_check_space(struct tracer *tracer, struct vcpu *vcpu);
/* Called before the address space `mm` ends: lets the client read what it maps. */
void task_exit_mm(struct tracer *tracer, uint64_t mm, uint64_t time);
