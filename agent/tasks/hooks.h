/* SPDX-License-Identifier: MIT */
/* Hooks in the guest's code where tasks switch and address spaces end. */
#pragma once

#include "agent/qemu/vcpu.h"

/* Puts hooks into a block of code, if tasks are used. In the callback of translation. */
void tasks_hook(struct qemu_plugin_tb *tb);

/* ---- what the hooks need of tasks.c -------------------------------------------------- */

/* Finds the functions that are to be hooked. False: none is. */
bool tasks_find_functions(uint64_t *switches, uint64_t *ends_space);
/* The vCPU continues with the task at `va`. */
void tasks_switch(struct vcpu *vcpu, uint64_t va);
/* The address space `mm` ends when this returns. */
void tasks_end_space(struct vcpu *vcpu, uint64_t mm);
