/* SPDX-License-Identifier: MIT */
/*
 * A Linux guest: what its parts (kallsyms, BTF, ORC, tasks, modules …) share. Each part is one
 * file, has its own state behind a pointer here, and finds what it needs through the symbols
 * and types. A part that cannot be understood stays NULL and says why in the log; the rest works.
 *
 * Threads: `lock` guards what changes after detection (modules, processes, areas). All else is
 * constant then.
 */
#pragma once

#include "guest/linux/btf.h"
#include "guest/linux/orc.h"
#include "guest/linux/stamp.h"
#include <vmscope/guest.h>

struct vms_linux {
	struct vms_machine *machine;
	const struct vms_arch *arch;
	/* Kernel memory through the kernel's own page tables; for the detecting thread, or under
	 * lock. */
	struct vms_memory *memory;
	bool has_own_tables;		  /* not those that a vCPU used when it was found */
	struct vms_symbol_table *symbols; /* kallsyms of the kernel itself */
	uint64_t image, image_end;	  /* where the kernel is mapped: _text, _end */
	const struct vms_kernel_image *read_image; /* its bytes, while it is detected; or NULL */
	struct {
		uint64_t begin, end;
	} text[2], /* its code, and what is code only while it boots; empty where unknown */
		entry_text;
	uint64_t image_pa; /* aarch64: physical address of the image's begin; 0: unknown */
	struct {
		uint64_t va; /* atomic, set last; 0: not seen yet */
		uint64_t size, in_image;
	} trampoline;		 /* trampoline.c: code of the image that runs at another address */
	uint64_t pt_regs_record; /* aarch64: offset of the frame record in struct pt_regs */
	GHashTable *variables; /* hidden.c: addresses by name, as uint64_t; NULL: none are hidden */
	char *banner, *release, *version, *hostname;
	const char *found_by;
	uint64_t kaslr_offset;
	char *vmcoreinfo; /* its text, or NULL */
	char *missing;	  /* what this kernel has and could not be read, for a message; or NULL */

	struct vms_btf *btf;		       /* btf.c */
	struct vms_orc *orc;		       /* orc.c: the kernel's own table */
	struct vms_symbol_table *bpf;	       /* bpf.c: compiled BPF programs; NULL: none known */
	struct vms_stamp bpf_stamp;	       /* bpf.c: of the list of these */
	struct vms_linux_modules *modules;     /* module.c */
	struct vms_linux_tasks *tasks;	       /* task.c: offsets and the per-CPU bases */
	struct vms_linux_processes *processes; /* process.c: processes and their areas */
	struct vms_linux_noted *noted;	       /* naming.c: names of code that may go; or NULL */
	GMutex lock;
};

/* linux.c: finds a Linux kernel; NULL without error when there is none (why: newly allocated). */
struct vms_linux *vms_linux_detect(struct vms_machine *machine, char **why, GError **error);
void vms_linux_free(struct vms_linux *guest);
/* Notes that a part of the kernel is there and could not be read; looking again may help. */
void vms_linux_note_missing(struct vms_linux *guest, const char *what);
/* Address of a kernel symbol, or of a variable found otherwise; false when none has that name. */
bool vms_linux_symbol(const struct vms_linux *guest, const char *name, uint64_t *ret);
/* Looks through the page tables of these registers from now on; false if no kernel is there. */
bool vms_linux_renew_tables(struct vms_linux *guest, const struct vms_regs *regs);
/* Is `va` code of the kernel or of a module? */
bool vms_linux_is_text(const struct vms_linux *guest, uint64_t va);

/* naming.c: names a kernel address, by the symbols of the kernel, its modules and BPF programs. */
bool vms_linux_locate_kernel(const struct vms_linux *guest, uint64_t va, struct vms_location *ret);
/* See vms_guest_note_code and vms_guest_locate_noted. */
uint32_t vms_linux_note_code(struct vms_linux *guest, uint64_t va);
bool vms_linux_locate_noted(struct vms_linux *guest, uint32_t number, uint64_t va,
			    struct vms_location *ret);
void vms_linux_noted_free(struct vms_linux_noted *noted);
/* See vms_guest_code_changed. */
bool vms_linux_code_changed(const struct vms_linux *guest, struct vms_memory *memory, uint64_t va);
/*
 * vms_linux_detect without looking at any vCPU: by the VMCOREINFO that a search of all memory
 * finds, as it does when no vCPU's registers lead to a kernel.
 */
struct vms_linux *vms_linux_detect_by_scan(struct vms_machine *machine, char **why);

/* Reads what the kernel never changes: of its image it is at hand while the guest is detected. */
bool vms_linux_read_constant(const struct vms_linux *guest, uint64_t va, void *buf, size_t size);

/* trampoline.c: finds where the image is in physical memory, by its pages. */
void vms_linux_find_image_pa(struct vms_linux *guest, const GArray *pages);
/*
 * Learns from `memory`, of a vCPU that executes the kernel at `va`, where the entry trampoline is
 * mapped a second time. For any thread.
 */
void vms_linux_note_trampoline(struct vms_linux *guest, struct vms_memory *memory, uint64_t va);
bool vms_linux_in_trampoline(const struct vms_linux *guest, uint64_t va);
/* Names an address there, without a symbol of its own by the trampoline's begin. */
bool vms_linux_locate_trampoline(const struct vms_linux *guest, uint64_t va,
				 struct vms_location *ret);

/* hidden.c: finds variables that a kernel's symbols leave out; with BTF, more of them. */
struct vms_kernel_image;
void vms_linux_find_hidden(struct vms_linux *guest, const struct vms_kernel_image *image);
void vms_linux_find_hidden_by_types(struct vms_linux *guest, const struct vms_kernel_image *image);
/* timekeeper.c: recognises one, where no symbol tells. */
bool vms_linux_find_timekeeper(const struct vms_linux *guest, const struct vms_kernel_image *image,
			       uint64_t *ret);
bool vms_linux_hidden_variable(const struct vms_linux *guest, const char *name, uint64_t *ret);

/* module.c */
struct vms_linux_modules *vms_linux_modules_new(struct vms_linux *guest);
void vms_linux_modules_free(struct vms_linux_modules *modules);
bool vms_linux_modules_refresh(struct vms_linux *guest, GError **error);
const GPtrArray *vms_linux_modules_list(const struct vms_linux *guest);
/* Have modules come or gone since the list was read? Reads a few bytes of `memory`. */
bool vms_linux_modules_changed(const struct vms_linux *guest, struct vms_memory *memory);
/* The module whose code or data `va` lies in, or NULL; its ORC table, or NULL. */
const struct vms_module *vms_linux_module_at(const struct vms_linux *guest, uint64_t va,
					     const struct vms_orc **orc);

/* The same; where the part of it begins that `va` lies in, and whether that is code. */
const struct vms_module *vms_linux_module_part_at(const struct vms_linux *guest, uint64_t va,
						  uint64_t *part, bool *is_text);

/* bpf.c: reads the list of BPF programs anew. */
void vms_linux_bpf_refresh(struct vms_linux *guest);

/* task.c */
struct vms_linux_tasks *vms_linux_tasks_new(struct vms_linux *guest);
void vms_linux_tasks_free(struct vms_linux_tasks *tasks);
bool vms_linux_current(struct vms_linux *guest, struct vms_memory *memory,
		       const struct vms_regs *regs, struct vms_task *ret);
GArray *vms_linux_tasks_list(struct vms_linux *guest, GError **loss, GError **error);
bool vms_linux_task_layout(const struct vms_linux *guest, struct vms_task_layout *ret);
bool vms_linux_task_has(struct vms_linux *guest, uint64_t task, uint32_t pid, uint64_t mm);
bool vms_linux_task_regs(struct vms_linux *guest, const struct vms_task *task, struct vms_regs *ret,
			 GError **error);

/* The physical address of the task's own page tables, or 0. Under the lock. */
uint64_t vms_linux_page_tables(struct vms_linux *guest, const struct vms_task *task);

/* vcpu.c: gives vCPUs without control registers those that the kernel's memory tells. */
void vms_linux_complete_vcpus(struct vms_linux *guest);

/* process.c */
struct vms_linux_processes *vms_linux_processes_new(struct vms_linux *guest);
void vms_linux_processes_free(struct vms_linux_processes *processes);
const struct vms_process *vms_linux_process(struct vms_linux *guest, const struct vms_task *task);
const struct vms_process *vms_linux_process_get(struct vms_linux *guest, unsigned index);
void vms_linux_note_address(struct vms_linux *guest, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va);
/* The file that backs `va` of a process and the offset in it; false when not noted before. */
bool vms_linux_locate_user(struct vms_linux *guest, const struct vms_process *process, uint64_t va,
			   const char **file, uint64_t *offset);
bool vms_linux_next_code(struct vms_linux *guest, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret);
uint64_t vms_linux_mappings_stamp(struct vms_linux *guest, uint64_t mm);

/* dmesg.c */
bool vms_linux_dmesg(struct vms_linux *guest,
		     void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		     void *data, GError **error);

/* timer.c */
GArray *vms_linux_timers(struct vms_linux *guest, GError **error);

/* clock.c */
GArray *vms_linux_clocks(struct vms_linux *guest, GError **error);
