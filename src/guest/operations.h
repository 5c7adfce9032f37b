/* SPDX-License-Identifier: MIT */
/*
 * The operations of an operating system: one constant table of functions. The public function of
 * the same name (guest.h) says what an operation does. `system` is what `detect` returned.
 * `detect`, `free`, `describe` and `symbolizer` must be there. Others may be NULL: the public
 * function then answers that nothing is known (false, NULL, UNSUPPORTED).
 */
#pragma once

#include "guest/code_facts.h"
#include "guest/processes.h"
#include "guest/unwind_info.h"
#include <vmscope/guest.h>

struct vms_guest_ops {
	enum vms_guest_kind kind;

	/*
	 * Looks for the system in a machine. Returns NULL without an error if it is not there;
	 * then `*why` is newly allocated and says what was missing.
	 */
	void *(*detect)(struct vms_machine *machine, char **why, GError **error);
	void (*free)(void *system);
	/*
	 * The system owns the strings of `*ret`. Returns a newly allocated text that says what
	 * could not be understood, or NULL.
	 */
	char *(*describe)(const void *system, struct vms_guest_info *ret);
	/* True if all of it was understood. Without this operation it always is. */
	bool (*is_complete)(const void *system);
	bool (*follow_tables)(void *system, GError **error);

	/* ---- names ---- */

	/*
	 * Returns the symbolizer, not a new reference. The system fills it: the kernel, loaded
	 * code, and processes. A process has the index there that `process` tells.
	 */
	struct vms_symbolizer *(*symbolizer)(const void *system);

	/* Gives the bounds of the kernel's image. */
	void (*image)(const void *system, uint64_t *start, uint64_t *end);
	/*
	 * Returns the kernel's own symbols for index 0, and symbols of loaded code that is no
	 * module for the next ones; NULL beyond the last. Not a new reference.
	 */
	struct vms_symbol_table *(*symbols)(const void *system, unsigned index);
	/*
	 * True if the file is a vmlinux. Then `*bias` is how far the kernel was moved, and
	 * `*is_same` is true if the file is of the same build as the guest's kernel.
	 */
	bool (*is_own_file)(const void *system, const struct vms_symbol_file *file, uint64_t *bias,
			    bool *is_same);
	bool (*code_changed)(const void *system, struct vms_memory *memory, uint64_t va);
	void (*note_kernel_pc)(void *system, struct vms_memory *memory, uint64_t va);
	const char *(*vmcoreinfo)(const void *system);

	/* ---- code ---- */

	enum vms_code_role (*code_role)(const char *symbol);
	bool (*code_is_freed)(const void *system, struct vms_memory *memory, uint64_t va);
	/*
	 * Adds to an array of struct vms_special_insn, in any order. False if it cannot be told
	 * which traps there are warnings.
	 */
	bool (*special_insns)(void *system, struct vms_memory *memory, uint64_t va, uint64_t size,
			      GArray *to);

	/* ---- types ---- */

	struct vms_types *(*types)(void *system, uint64_t va, GError **error);

	/* ---- modules ---- */

	bool (*refresh_modules)(void *system, GError **error);
	const GPtrArray *(*modules)(const void *system);

	/* ---- tasks and their memory ---- */

	bool (*current)(void *system, struct vms_memory *memory, const struct vms_regs *regs,
			struct vms_task *ret);
	bool (*add_current)(const void *system, GArray *ops);
	size_t (*ancestors)(void *system, struct vms_memory *memory, const struct vms_regs *regs,
			    uint32_t *pids, size_t limit);
	GArray *(*tasks)(void *system, GError **loss, GError **error);
	bool (*task_regs)(void *system, const struct vms_task *task, struct vms_regs *ret,
			  GError **error);
	bool (*task_facts)(void *system, const struct vms_task *task, struct vms_task_facts *ret);
	char *(*task_cgroup)(void *system, const struct vms_task *task);
	bool (*task_layout)(const void *system, struct vms_task_layout *ret);
	bool (*task_has)(void *system, uint64_t task, uint32_t pid, uint64_t mm);
	bool (*task_wait)(void *system, uint64_t task, struct vms_task_wait *ret);
	bool (*is_sleep_code)(const void *system, uint64_t pc);
	const struct vms_process *(*process)(void *system, const struct vms_task *task);
	void (*note_address)(void *system, struct vms_memory *memory,
			     const struct vms_process *process, uint64_t va);
	void (*read_files)(void *system);
	bool (*enter_process)(void *system, struct vms_memory *memory,
			      const struct vms_process *process);
	bool (*user_code)(void *system, struct vms_memory *memory,
			  const struct vms_process *process, uint64_t va, struct vms_mapping *ret);
	bool (*next_code)(void *system, uint64_t mm, uint64_t va, unsigned *areas,
			  struct vms_mapping *ret);
	uint64_t (*mappings_stamp)(void *system, uint64_t mm);

	/* ---- unwinding ---- */

	bool (*is_kernel_text)(const void *system, uint64_t pc);
	bool (*is_entry_text)(const void *system, uint64_t pc);
	uint64_t (*pt_regs_record)(const void *system);
	void (*kernel_regs)(void *system, struct vms_regs *ret);
	/* Both of these or none. */
	bool (*has_orc)(const void *system);
	bool (*orc)(const void *system, uint64_t pc, struct vms_orc_entry *ret);

	/* ---- system calls, timers, log ---- */

	GArray *(*syscalls)(void *system, GError **error);

	GArray *(*timers)(void *system, GError **error);
	GArray *(*clocks)(void *system, GError **error);
	bool (*dmesg)(void *system,
		      void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		      void *data, GError **error);
};
