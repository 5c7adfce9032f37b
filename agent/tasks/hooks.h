/* SPDX-License-Identifier: MIT */
/* Hooks in the guest's code where tasks switch and address spaces end. */
#pragma once

#include "agent/qemu/vcpu.h"

/* Adds hooks to a block of code if a service uses tasks. Called in the callback of translation. */
void tasks_hook(struct qemu_plugin_tb *tb);

/* ---- functions of tasks.c that the hooks call ---------------------------------------- */

/* Finds the functions that need hooks. False if there are none. */
bool tasks_find_functions(uint64_t *switches, uint64_t *ends_space);
/* The vCPU continues with the task at `va`. */
void tasks_switch(struct vcpu *vcpu, uint64_t va);
/* The address space `mm` ends when this returns. */
void tasks_end_space(struct vcpu *vcpu, uint64_t mm);
