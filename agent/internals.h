/* SPDX-License-Identifier: MIT */
/*
 * What of QEMU itself the agent uses beside the interface for plugins, in a QEMU that exports it:
 * one whose parts may be modules, as those of distributions. How QEMU declares these functions is
 * known to internals.c alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Finds all of it. `api` is QEMU's version of its interface: none later than 10.0's will do. `work`
 * is what vCPUs are to do. False: nothing of what follows may be used.
 */
bool internals_find(unsigned api, void (*work)(unsigned vcpu));

/* QEMU's vCPU of this index, in a callback of that vCPU. */
void *internals_vcpu(unsigned index);

/*
 * Has a vCPU do its work in its own thread, with QEMU's big lock, before it executes more: soon,
 * even if it is halted or the machine is paused. From any thread.
 */
void internals_queue(void *qemu_vcpu, unsigned index);

/* QEMU's big lock, in vCPUs' threads. */
void internals_unlock(void);
void internals_lock(void);

/* A number of a vCPU's state in QEMU. */
struct internals_state {
	size_t offset, size; /* in bytes, in QEMU's vCPU; size 0: there is no such */
};

/*
 * Finds what QEMU's table for migrations (a variable of QEMU's) calls `name`, such as "env.star".
 * Only what QEMU itself keeps there at any time: not what it computes for a migration.
 */
struct internals_state internals_find_state(const char *table, const char *name);
uint64_t internals_read_state(const void *qemu_vcpu, struct internals_state state);
/* IA32_APIC_BASE of a vCPU of x86; false if it has no APIC. */
bool internals_read_apic_base(void *qemu_vcpu, uint64_t *ret);

/* Reads guest memory by its address in QEMU, under the lock. False: it is not all guest memory. */
bool internals_read_ram(uint64_t address, void *buf, size_t size);
