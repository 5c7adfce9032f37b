/* SPDX-License-Identifier: MIT */
/* Registers of vCPUs that are wider than 64 bits, by their numbers in programs (probe/wide.h). */
#pragma once

#include "agent/qemu/vcpu.h"

/* Finds the wide registers of a vCPU that QEMU has created, in its thread. */
void wide_find(struct vcpu *vcpu);
/*
 * Reads the first `size` bytes of a wide register, in a callback of the vCPU that may read
 * registers. False if QEMU does not have it, or not so much of it.
 */
bool wide_read(struct vcpu *vcpu, unsigned number, void *buf, size_t size);
