/* SPDX-License-Identifier: MIT */
/*
 * What an operating system's part gives of a guest: one constant table of functions. guest.h says
 * what each of them does under the name of the public function that asks it. `system` is what
 * `detect` returned. A system leaves out (NULL) what it does not have: whoever asks then gets the
 * answer for what is not known (false, NULL, UNSUPPORTED). Only `detect`, `free`, `describe`
 * and `symbolizer` must be there.
 */
#pragma once

#include "guest/processes.h"
#include "guest/unwind_info.h"
#include <vmscope/guest.h>

struct vms_guest_ops {
	enum vms_guest_kind kind;

	/*
	 * Looks for the system in a machine. NULL without an error when it is not there: `*why`
	 * says, newly allocated, what was missing.
	 */
	void *(*detect)(struct vms_machine *machine, char **why, GError **error);
	void (*free)(void *system);
	/* Strings of `*ret` are the system's. Returns what could not be understood, newly
	 * allocated, or NULL. */
	char *(*describe)(const void *system, struct vms_guest_info *ret);
	/* Was all of it understood? Where it is left out: yes. */
	bool (*is_complete)(const void *system);
	bool (*follow_tables)(void *system, GError **error);

	/* ---- names ---- */

	/* Not a new reference. The system tells it of the kernel, of what is loaded, and of
	 * processes: their index is that of `process`. */
	struct vms_symbolizer *(*symbolizer)(const void *system);

	/* The addresses of its image. */
	void (*image)(const void *system, uint64_t *start, uint64_t *end);
	/* Its own symbols (index 0), then those of loaded code that is no module; NULL beyond the
	 * last. Not a new reference. */
	struct vms_symbol_table *(*symbols)(const void *system, unsigned index);
	/* Is the file the kernel's own? Then `*bias` is what the kernel was moved by, and
	 * `*is_same` whether both were built together. */
	bool (*is_own_file)(const void *system, const struct vms_symbol_file *file, uint64_t *bias,
			    bool *is_same);
	bool (*code_changed)(const void *system, struct vms_memory *memory, uint64_t va);
	void (*note_kernel_pc)(void *system, struct vms_memory *memory, uint64_t va);
	const char *(*vmcoreinfo)(const void *system);

	/* ---- modules ---- */

	bool (*refresh_modules)(void *system, GError **error);
	const GPtrArray *(*modules)(const void *system);

	/* ---- tasks and their memory ---- */

	bool (*current)(void *system, struct vms_memory *memory, const struct vms_regs *regs,
			struct vms_task *ret);
	GArray *(*tasks)(void *system, GError **loss, GError **error);
	bool (*task_regs)(void *system, const struct vms_task *task, struct vms_regs *ret,
			  GError **error);
	bool (*task_layout)(const void *system, struct vms_task_layout *ret);
	bool (*task_has)(void *system, uint64_t task, uint32_t pid, uint64_t mm);
	const struct vms_process *(*process)(void *system, const struct vms_task *task);
	void (*note_address)(void *system, struct vms_memory *memory,
			     const struct vms_process *process, uint64_t va);
	bool (*next_code)(void *system, uint64_t mm, uint64_t va, unsigned *areas,
			  struct vms_mapping *ret);
	uint64_t (*mappings_stamp)(void *system, uint64_t mm);

	/* ---- unwinding ---- */

	bool (*is_kernel_text)(const void *system, uint64_t pc);
	bool (*is_entry_text)(const void *system, uint64_t pc);
	uint64_t (*pt_regs_record)(const void *system);
	/* Both or none. */
	bool (*has_orc)(const void *system);
	bool (*orc)(const void *system, uint64_t pc, struct vms_orc_entry *ret);

	/* ---- timers, log ---- */

	GArray *(*timers)(void *system, GError **error);
	GArray *(*clocks)(void *system, GError **error);
	bool (*dmesg)(void *system,
		      void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		      void *data, GError **error);
};
