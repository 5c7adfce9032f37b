/* SPDX-License-Identifier: MIT */
/*
 * The parts of QEMU itself that the agent uses besides the interface for plugins. A QEMU exports
 * them if its parts may be modules, as those of distributions do. Only internals.c knows how QEMU
 * declares them.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Finds all of them. `api` is the version of QEMU's plugin interface. `work` is what vCPUs do when
 * they are kicked. False: nothing here may be used.
 */
bool internals_find(unsigned api, void (*work)(unsigned vcpu));

/*
 * Returns QEMU's CPUState of this index. NULL: nothing here may be used. In a callback of that
 * vCPU.
 */
void *internals_vcpu(unsigned index);

/*
 * Queues `work` for a vCPU. The vCPU does it in its own thread, with QEMU's big lock, before it
 * executes more: soon, even if it is halted or the machine is paused. From any thread.
 */
void internals_queue(void *qemu_vcpu, unsigned index);

/* Give up and take QEMU's big lock, in threads of vCPUs. */
void internals_unlock(void);
void internals_lock(void);

/*
 * Finds the number of each register of these names; -1: there is none. In the vCPU's thread.
 *
 * From QEMU 10.1 on the interface for plugins reads registers in callbacks of code alone. What
 * QEMU's gdb stub reads them with works at any time.
 */
void internals_find_registers(void *qemu_vcpu, const char *const *names, unsigned n, int *numbers);
/* Appends the register's value to `bytes`. In the vCPU's thread. */
void internals_read_register(void *qemu_vcpu, int number, GByteArray *bytes);

/* Where QEMU keeps a number of a vCPU's state. */
struct internals_state {
	size_t offset, size; /* in bytes, in CPUState; size 0: there is no such number */
};

/*
 * Finds the number that QEMU's table for migrations calls `name`, such as "env.star". `table` is
 * the name of that variable of QEMU. Finds only what QEMU keeps up to date at any time, not what it
 * computes for a migration.
 */
struct internals_state internals_find_state(const char *table, const char *name);
uint64_t internals_read_state(const void *qemu_vcpu, struct internals_state state);
/* Reads IA32_APIC_BASE of an x86 vCPU. False: it has no APIC. */
bool internals_read_apic_base(void *qemu_vcpu, uint64_t *ret);

/*
 * Reads guest memory by its address in QEMU, with the big lock held. False: not all of the range is
 * guest memory.
 */
bool internals_read_ram(uint64_t address, void *buf, size_t size);
