/* SPDX-License-Identifier: MIT */
/* A machine made of the memory and the registers that a test gives it. */
#pragma once

#include <vmscope/machine.h>

/*
 * Paging is off in registers that are all zeros: virtual addresses are physical ones then, up to
 * 64 bits, so that a test may put memory where a kernel has it.
 */
struct vms_machine *fake_machine_new(const struct vms_arch *arch, unsigned n_vcpus);
/* Adds zeroed RAM; owned by the machine. Ranges must not touch each other. */
uint8_t *fake_machine_add_ram(struct vms_machine *machine, uint64_t pa, size_t size);
/* Adds to the memory map, behind what is there, without adding memory. */
void fake_machine_add_range(struct vms_machine *machine, uint64_t pa, uint64_t size,
			    enum vms_range_kind kind, const char *name);
/* Forgets the memory map, not the memory. */
void fake_machine_clear_ranges(struct vms_machine *machine);
/* The host's address of a word of RAM, aligned or not: for writing through memcpy. */
void *fake_machine_at(struct vms_machine *machine, uint64_t pa);
void fake_machine_write_u64(struct vms_machine *machine, uint64_t pa, uint64_t value);
struct vms_regs *fake_machine_regs(struct vms_machine *machine, unsigned vcpu);
/*
 * What a machine does instead of what it is asked for; members that are NULL leave it at that. A
 * hold or release that fails, or is the watchdog's, says so by its error.
 */
struct fake_hooks {
	bool (*hold)(void *data, GError **error);
	bool (*release)(void *data, GError **error);
	bool (*regs)(void *data, unsigned vcpu, GError **error);
	bool (*is_paused)(void *data);
	enum vms_machine_end (*ended)(void *data);
	/*
	 * Can this memory be read? Several threads may ask at once. With it memory is read without
	 * a lock.
	 */
	bool (*read)(void *data, uint64_t pa, size_t size);
	void (*next_data)(void *data, uint64_t pa, uint64_t end, uint64_t *begin, uint64_t *stop);
	void *data;
	bool (*observe)(void *data, GError **error); /* without it, the machine cannot be */
	char *(*pause_reason)(void *data);
	uint64_t (*resets)(void *data);
};
/* Before anything else is done with the machine. */
void fake_machine_set_hooks(struct vms_machine *machine, const struct fake_hooks *hooks);
/* Makes it one whose vCPUs can be held one at a time. Before anything else. */
void fake_machine_set_holds_each(struct vms_machine *machine);
/* Makes it one that is read in pieces of so many bytes, and stands still meanwhile; 0: not. */
void fake_machine_set_held_reads(struct vms_machine *machine, size_t max);
/* Makes it one whose vCPUs can also be held briefly, with prefetched memory. */
void fake_machine_set_brief_holds(struct vms_machine *machine);
/* Ends all brief holds. */
void fake_machine_go_on(struct vms_machine *machine);
/* See vms_machine_give_up_at: when; and is that moment past? */
uint64_t fake_machine_give_up_ns(struct vms_machine *machine);
bool fake_machine_is_given_up(struct vms_machine *machine);
/* Makes it one that reads several parts of memory in one go: how many, at most. */
void fake_machine_set_parts(struct vms_machine *machine, size_t most);
/* Reads of physical memory, parts in one go counting as one, since the machine was made: bounds
 * work without a clock. */
uint64_t fake_machine_reads(struct vms_machine *machine);
