/* SPDX-License-Identifier: MIT */
/*
 * A guest made of the symbols and processes that a test gives it: an operating system of its own,
 * by its table of operations, in the library's guest. The stacks of its vCPUs are what a test says
 * where fake_capture.c is linked.
 */
#pragma once

#include "guest/processes.h"
#include <vmscope/unwind.h>

struct vms_guest *fake_guest_new(struct vms_machine *machine, enum vms_guest_kind kind);
/* A function of the kernel's; `module` NULL: its own. */
void fake_guest_add_symbol(struct vms_guest *guest, const char *name, const char *module,
			   uint64_t va, uint64_t size);
const struct vms_process *fake_guest_add_process(struct vms_guest *guest, const char *comm,
						 uint32_t pid, bool is_idle);
/* The thread of whatever vCPU has the stack pointer `sp`; the others' are unknown. */
void fake_guest_add_current(struct vms_guest *guest, uint64_t sp, uint32_t tid, bool is_idle);
/* `text` is the caller's. */
void fake_guest_set_vmcoreinfo(struct vms_guest *guest, const char *text);
/* How often modules were read anew. */
unsigned fake_guest_refreshes(const struct vms_guest *guest);
/* Only so many symbols of modules are known until modules are read for the second time from now on.
 */
void fake_guest_hide_symbols(struct vms_guest *guest, unsigned known);

/* A guest in which nothing was recognised is one of Linux when it is looked for again. */
void fake_guest_boot(struct vms_guest *guest, bool completely);
/* What is found next where a fake is looked for anew; nothing is recognised else. Takes the guest.
 * `*begins`, if any, becomes true while it is looked for. */
void fake_guest_find(struct vms_guest *guest, bool *begins);
/* How often the page tables of its vCPU were followed. */
unsigned fake_guest_table_follows(const struct vms_guest *guest);
/* Makes a guest in which nothing was recognised a Linux guest. */
void fake_guest_recognise(struct vms_guest *guest);
/* The kernel's own symbols and image; `table` is referenced, here and below. */
void fake_guest_set_kernel(struct vms_guest *guest, struct vms_symbol_table *table, uint64_t start,
			   uint64_t end);
void fake_guest_add_module(struct vms_guest *guest, const char *name, uint64_t text, uint64_t size,
			   struct vms_symbol_table *table);
/* The same once modules are read anew. */
void fake_guest_load_later(struct vms_guest *guest, const char *name, uint64_t text, uint64_t size,
			   struct vms_symbol_table *table);
/* Code that `mm` maps from now on; `mapping->name` is the caller's. Its stamp stays. */
void fake_guest_map(struct vms_guest *guest, uint64_t mm, const struct vms_mapping *mapping);
/* Takes all code from `mm`. */
void fake_guest_unmap(struct vms_guest *guest, uint64_t mm);
/* The stamp of what `mm` maps: 1 until it is set. */
void fake_guest_set_stamp(struct vms_guest *guest, uint64_t mm, uint64_t stamp);
/* A task and the address space that it has from now on, 0 for none. */
void fake_guest_set_task(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm);
/* The types of all its code; a reference is taken. */
void fake_guest_set_types(struct vms_guest *guest, struct vms_types *types);
/* How often code that processes map was asked for. */
unsigned fake_guest_code_reads(const struct vms_guest *guest);

/* What one sample of a vCPU finds. The frames, leaf first, end with a pc of 0. */
struct fake_sample {
	bool idle;
	bool code_changed;
	const struct vms_process *process;
	struct vms_frame frames[12];
	enum vms_walk_end end;
};
/* What a vCPU is found doing, sample after sample, from the beginning again at the end. */
void fake_guest_set_samples(struct vms_guest *guest, unsigned vcpu,
			    const struct fake_sample *samples, unsigned n);
/* Takes the next one; an idle one where none were set. */
const struct fake_sample *fake_guest_next_sample(const struct vms_guest *guest, unsigned vcpu);
