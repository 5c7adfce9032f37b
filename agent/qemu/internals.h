/* SPDX-License-Identifier: MIT */
/*
 * Functions and data of QEMU that the agent uses besides the interface for plugins. QEMU exports
 * them if it was built with support for modules, as those of distributions are. Only internals.c
 * knows how QEMU declares them.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Finds all of them. `api` is the version of QEMU's plugin interface. A vCPU that is kicked calls
 * `work`. If this returns false, nothing else here may be called.
 */
bool internals_find(unsigned api, void (*work)(unsigned vcpu));

/*
 * Returns QEMU's CPUState of this index, or NULL if internals_find has failed. Called in a callback
 * of that vCPU.
 */
void *internals_vcpu(unsigned index);

/*
 * Queues `work` for a vCPU. The vCPU's thread calls it soon, before it executes more, with QEMU's
 * big lock held: also if the vCPU is halted or the machine is paused. Any thread.
 */
void internals_queue(void *qemu_vcpu, unsigned index);

/* Release and acquire QEMU's big lock, in threads of vCPUs. */
void internals_unlock(void);
void internals_lock(void);

/*
 * Finds the number of each register with these names; -1 if there is none. In the vCPU's thread.
 *
 * From QEMU 10.1 on, the interface for plugins reads registers only in callbacks of code. The
 * functions of QEMU's gdb stub read them at any time.
 */
void internals_find_registers(void *qemu_vcpu, const char *const *names, unsigned n, int *numbers);
/* Calls `each` with the name and the number of every register. In the vCPU's thread. */
void internals_each_register(void *qemu_vcpu,
			     void (*each)(const char *name, int number, void *data), void *data);
/* Appends the register's value to `bytes`. In the vCPU's thread. */
void internals_read_register(void *qemu_vcpu, int number, GByteArray *bytes);

/* Where QEMU keeps a number in a vCPU's state. */
struct internals_state {
	size_t offset, size; /* in bytes, in CPUState; size 0: there is no such number */
};

/*
 * Finds the number that is called `name`, such as "env.star", in QEMU's table for migrations.
 * `table` is the name of QEMU's variable. Finds only numbers that are always up to date, not those
 * that QEMU computes for a migration.
 */
struct internals_state internals_find_state(const char *table, const char *name);
/* The same for the elements of an array; `size` is that of one. */
struct internals_state internals_find_elements(const char *table, const char *name);
/* The same for a number in a structure: `name` is that of the structure. */
struct internals_state internals_find_member(const char *table, const char *name,
					     const char *member);
uint64_t internals_read_state(const void *qemu_vcpu, struct internals_state state);
/* Copies `size` bytes of a vCPU's state. */
void internals_copy_state(const void *qemu_vcpu, size_t offset, void *ret, size_t size);
/* Writes it, in the vCPU's thread. */
void internals_write_state(void *qemu_vcpu, struct internals_state state, uint64_t value);
/* Reads IA32_APIC_BASE of an x86 vCPU. False if it has no APIC. */
bool internals_read_apic_base(void *qemu_vcpu, uint64_t *ret);

/*
 * Reads guest memory by its address in QEMU, with the big lock held. False if a part of the range
 * is not guest memory.
 */
bool internals_read_ram(uint64_t address, void *buf, size_t size);
