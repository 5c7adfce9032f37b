/* SPDX-License-Identifier: MIT */
/* What runs in a machine. Most functions ask the operations of the system that was found. */
#include "base/clock.h"
#include "guest/guest-private.h"
#include "guest/kernel_code.h"
#include "guest/linux/operations.h"
#include "symbol/symbolizer-private.h"
#include <vmscope/log.h>
#include <vmscope/syscall.h>

/* Replaces the guest's symbolizer. The symbol files that were added go to the new one. */
static void replace_symbolizer(struct vms_guest *guest, struct vms_symbolizer *symbolizer)
{
	vms_symbolizer_exchange_files(symbolizer, guest->symbolizer);
	vms_symbolizer_unref(guest->symbolizer);
	guest->symbolizer = vms_symbolizer_ref(symbolizer);
}

/* Looks for the system, and describes it if it is found. True also if it is not found. */
static bool detect_system(struct vms_guest *guest, GError **error)
{
	GError *failure = NULL;
	uint64_t begin_ns = vms_clock_now_ns();
	g_clear_pointer(&guest->why, g_free);
	guest->system = guest->ops->detect(guest->machine, &guest->why, &failure);
	guest->looked_ns = vms_clock_now_ns();
	guest->look_took_ns = guest->looked_ns - begin_ns;
	if (guest->system) {
		guest->why = guest->ops->describe(guest->system, &guest->info);
		replace_symbolizer(guest, guest->ops->symbolizer(guest->system));
	}
	if (failure)
		g_propagate_error(error, failure);
	return !failure;
}

struct vms_guest *vms_guest_detect_system(struct vms_machine *machine,
					  const struct vms_guest_ops *ops, GError **error)
{
	g_autoptr(vms_guest) guest = g_new0(struct vms_guest, 1);
	g_atomic_ref_count_init(&guest->refs);
	guest->machine = vms_machine_ref(machine);
	guest->ops = ops;
	guest->resets = vms_machine_resets(machine);
	guest->symbolizer = vms_symbolizer_new();
	return detect_system(guest, error) ? g_steal_pointer(&guest) : NULL;
}

struct vms_guest *vms_guest_detect(struct vms_machine *machine, GError **error)
{
	return vms_guest_detect_system(machine, &vms_linux_ops, error);
}

struct vms_guest *vms_guest_detect_other(const struct vms_guest *guest, GError **error)
{
	return vms_guest_detect_system(guest->machine, guest->ops, error);
}

bool vms_guest_is_stale(const struct vms_guest *guest)
{
	return vms_machine_resets(guest->machine) != guest->resets;
}

bool vms_guest_take_reset(struct vms_guest *guest)
{
	uint64_t resets = vms_machine_resets(guest->machine);
	bool was_reset = resets != guest->resets;
	guest->resets = resets;
	return was_reset;
}

/* Adds another guest's symbol file. A vmlinux has no place if no kernel is known. */
static bool add_symbols_again(struct vms_guest *guest, const struct vms_symbolizer_file *added,
			      GError **error)
{
	if (added->is_kernel && !guest->system) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "the guest's kernel is not recognised any more");
		return false;
	}
	struct vms_symbol_file *file =
		vms_symbol_file_open(vms_symbol_file_path(added->file), error);
	return file &&
	       vms_guest_add_symbols(guest, file, added->is_placed ? &added->base : NULL, error);
}

struct vms_guest *vms_guest_detect_anew(const struct vms_guest *guest, GError **error)
{
	const GArray *files = vms_symbolizer_files(guest->symbolizer);
	struct vms_debug_files *debug_files = vms_symbolizer_debug_files(guest->symbolizer);
	g_autoptr(vms_guest) anew = vms_guest_detect_other(guest, error);
	if (anew && debug_files)
		vms_guest_set_debug_files(anew, debug_files);
	for (guint i = 0; anew && i < files->len; i++) {
		const struct vms_symbolizer_file *file =
			&g_array_index(files, struct vms_symbolizer_file, i);
		g_autoptr(GError) failure = NULL;
		if (!add_symbols_again(anew, file, &failure))
			vms_log(VMS_LOG_WARNING, "without the symbols of %s: %s",
				vms_symbol_file_path(file->file), failure->message);
	}
	return g_steal_pointer(&anew);
}

bool vms_guest_detect_again(struct vms_guest *guest, GError **error)
{
	bool too_soon = vms_clock_now_ns() - guest->looked_ns < 10 * guest->look_took_ns;
	bool in_vain = too_soon || vms_machine_info(guest->machine)->is_core;
	return !guest->system && !in_vain && detect_system(guest, error) && guest->system;
}

bool vms_guest_is_complete(const struct vms_guest *guest)
{
	return guest->system &&
	       (!guest->ops->is_complete || guest->ops->is_complete(guest->system));
}

bool vms_guest_follow_tables(struct vms_guest *guest, GError **error)
{
	return !VMS_GUEST_HAS(guest, follow_tables) ||
	       guest->ops->follow_tables(guest->system, error);
}

void vms_guest_exchange(struct vms_guest *guest, struct vms_guest *other)
{
	const struct vms_guest old = *guest;
	guest->ops = other->ops;
	guest->system = other->system;
	guest->info = other->info;
	guest->why = other->why;
	guest->resets = other->resets;
	guest->symbolizer = other->symbolizer;
	other->ops = old.ops;
	other->system = old.system;
	other->info = old.info;
	other->why = old.why;
	other->resets = old.resets;
	other->symbolizer = old.symbolizer;
	vms_symbolizer_exchange_files(guest->symbolizer, other->symbolizer);
}

struct vms_guest *vms_guest_ref(struct vms_guest *guest)
{
	g_atomic_ref_count_inc(&guest->refs);
	return guest;
}

void vms_guest_unref(struct vms_guest *guest)
{
	if (!guest || !g_atomic_ref_count_dec(&guest->refs))
		return;
	vms_symbolizer_unref(guest->symbolizer);
	if (guest->system)
		guest->ops->free(guest->system);
	vms_machine_unref(guest->machine);
	g_free(guest->why);
	g_free(guest);
}

enum vms_guest_kind vms_guest_kind(const struct vms_guest *guest)
{
	return guest->system ? guest->ops->kind : VMS_GUEST_NONE;
}

struct vms_machine *vms_guest_machine(const struct vms_guest *guest)
{
	return guest->machine;
}

const struct vms_guest_info *vms_guest_info(const struct vms_guest *guest)
{
	return &guest->info;
}

const char *vms_guest_why(const struct vms_guest *guest)
{
	return guest->why;
}

const char *vms_guest_vmcoreinfo(const struct vms_guest *guest)
{
	return VMS_GUEST_HAS(guest, vmcoreinfo) ? guest->ops->vmcoreinfo(guest->system) : NULL;
}

/* ---- code (code_facts.h) ---------------------------------------------- */

enum vms_code_role vms_guest_code_role(const struct vms_guest *guest, const char *symbol)
{
	return symbol && VMS_GUEST_HAS(guest, code_role) ? guest->ops->code_role(symbol)
							 : VMS_CODE_ORDINARY;
}

bool vms_guest_code_is_freed(const struct vms_guest *guest, struct vms_memory *memory, uint64_t va)
{
	return VMS_GUEST_HAS(guest, code_is_freed) &&
	       guest->ops->code_is_freed(guest->system, memory, va);
}

static gint compare_insns(gconstpointer a, gconstpointer b)
{
	const struct vms_special_insn *x = a, *y = b;
	return (x->va > y->va) - (x->va < y->va);
}

GArray *vms_guest_special_insns(struct vms_guest *guest, struct vms_memory *memory, uint64_t va,
				uint64_t size, bool *tells_warnings)
{
	GArray *insns = g_array_new(false, false, sizeof(struct vms_special_insn));
	*tells_warnings = !VMS_GUEST_HAS(guest, special_insns) ||
			  guest->ops->special_insns(guest->system, memory, va, size, insns);
	g_array_sort(insns, compare_insns);
	return insns;
}

/* ---- modules ---------------------------------------------------------- */

/* Fails unless the guest's system has the operation, as `has` tells. `what` is for the message. */
static bool check_operation(const struct vms_guest *guest, bool has, const char *what,
			    GError **error)
{
	if (has)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "cannot read the guest's %s: %s (%s)",
		    what,
		    guest->system ? "it is not known how its operating system keeps them"
				  : "no operating system was recognised",
		    guest->system ? guest->info.name : guest->why);
	return false;
}
#define CAN_READ(guest, operation, what, error)                                                    \
	check_operation(guest, VMS_GUEST_HAS(guest, operation), what, error)

bool vms_guest_refresh_modules(struct vms_guest *guest, GError **error)
{
	return CAN_READ(guest, refresh_modules, "modules", error) &&
	       guest->ops->refresh_modules(guest->system, error);
}

const struct vms_module *const *vms_guest_modules(const struct vms_guest *guest, size_t *n)
{
	static const struct vms_module *const none = NULL; /* an empty GPtrArray has no pdata */
	const GPtrArray *modules =
		VMS_GUEST_HAS(guest, modules) ? guest->ops->modules(guest->system) : NULL;
	*n = modules ? modules->len : 0;
	return *n > 0 ? (const struct vms_module *const *)modules->pdata : modules ? &none : NULL;
}

bool vms_guest_code_changed(const struct vms_guest *guest, struct vms_memory *memory, uint64_t va)
{
	return VMS_GUEST_HAS(guest, code_changed) &&
	       guest->ops->code_changed(guest->system, memory, va);
}

void vms_guest_note_kernel_pc(struct vms_guest *guest, struct vms_memory *memory, uint64_t va)
{
	if (VMS_GUEST_HAS(guest, note_kernel_pc))
		guest->ops->note_kernel_pc(guest->system, memory, va);
}

/* ---- tasks ------------------------------------------------------------ */

bool vms_guest_current(struct vms_guest *guest, struct vms_memory *memory,
		       const struct vms_regs *regs, struct vms_task *ret)
{
	return VMS_GUEST_HAS(guest, current) &&
	       guest->ops->current(guest->system, memory, regs, ret);
}

size_t vms_guest_ancestors(struct vms_guest *guest, struct vms_memory *memory,
			   const struct vms_regs *regs, uint32_t *pids, size_t limit)
{
	return VMS_GUEST_HAS(guest, ancestors)
		       ? guest->ops->ancestors(guest->system, memory, regs, pids, limit)
		       : 0;
}

GArray *vms_guest_tasks(struct vms_guest *guest, GError **loss, GError **error)
{
	return CAN_READ(guest, tasks, "tasks", error)
		       ? guest->ops->tasks(guest->system, loss, error)
		       : NULL;
}

bool vms_guest_task_facts(struct vms_guest *guest, const struct vms_task *task,
			  struct vms_task_facts *ret)
{
	*ret = (struct vms_task_facts) { .cpu_ns = UINT64_MAX, .ended_cpu_ns = UINT64_MAX };
	return VMS_GUEST_HAS(guest, task_facts) && guest->ops->task_facts(guest->system, task, ret);
}

char *vms_guest_task_cgroup(struct vms_guest *guest, const struct vms_task *task)
{
	return VMS_GUEST_HAS(guest, task_cgroup) ? guest->ops->task_cgroup(guest->system, task)
						 : NULL;
}

void vms_task_facts_clear(struct vms_task_facts *facts)
{
	g_clear_pointer(&facts->command, g_free);
	g_clear_pointer(&facts->cgroup, g_free);
	g_clear_pointer(&facts->container, g_free);
}

bool vms_guest_task_regs(struct vms_guest *guest, const struct vms_task *task, struct vms_regs *ret,
			 GError **error)
{
	return CAN_READ(guest, task_regs, "tasks", error) &&
	       guest->ops->task_regs(guest->system, task, ret, error);
}

const struct vms_process *vms_guest_process(struct vms_guest *guest, const struct vms_task *task)
{
	return VMS_GUEST_HAS(guest, process) ? guest->ops->process(guest->system, task) : NULL;
}

void vms_guest_note_address(struct vms_guest *guest, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va)
{
	if (process && VMS_GUEST_HAS(guest, note_address))
		guest->ops->note_address(guest->system, memory, process, va);
}

bool vms_guest_enter_process(struct vms_guest *guest, struct vms_memory *memory,
			     const struct vms_process *process)
{
	return !VMS_GUEST_HAS(guest, enter_process) ||
	       guest->ops->enter_process(guest->system, memory, process);
}

bool vms_guest_user_code(struct vms_guest *guest, struct vms_memory *memory,
			 const struct vms_process *process, uint64_t va, struct vms_mapping *ret)
{
	return process && VMS_GUEST_HAS(guest, user_code) &&
	       guest->ops->user_code(guest->system, memory, process, va, ret);
}

void vms_guest_read_files(struct vms_guest *guest)
{
	if (VMS_GUEST_HAS(guest, read_files))
		guest->ops->read_files(guest->system);
}

/* ---- for traces of calls --------------------------------------------- */

bool vms_guest_task_layout(const struct vms_guest *guest, struct vms_task_layout *ret)
{
	return VMS_GUEST_HAS(guest, task_layout) && guest->ops->task_layout(guest->system, ret);
}

bool vms_guest_add_current(const struct vms_guest *guest, GArray *ops)
{
	return VMS_GUEST_HAS(guest, add_current) && guest->ops->add_current(guest->system, ops);
}

bool vms_guest_task_has(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm)
{
	return VMS_GUEST_HAS(guest, task_has) && guest->ops->task_has(guest->system, task, pid, mm);
}

bool vms_guest_task_wait(struct vms_guest *guest, uint64_t task, struct vms_task_wait *ret)
{
	return VMS_GUEST_HAS(guest, task_wait) && guest->ops->task_wait(guest->system, task, ret);
}

bool vms_guest_is_sleep_code(const struct vms_guest *guest, uint64_t pc)
{
	return VMS_GUEST_HAS(guest, is_sleep_code) && guest->ops->is_sleep_code(guest->system, pc);
}

bool vms_guest_next_code(struct vms_guest *guest, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret)
{
	return VMS_GUEST_HAS(guest, next_code) &&
	       guest->ops->next_code(guest->system, mm, va, areas, ret);
}

uint64_t vms_guest_mappings_stamp(struct vms_guest *guest, uint64_t mm)
{
	return VMS_GUEST_HAS(guest, mappings_stamp) ? guest->ops->mappings_stamp(guest->system, mm)
						    : 0;
}

/* ---- unwinding -------------------------------------------------------- */

bool vms_guest_is_kernel_text(const struct vms_guest *guest, uint64_t pc)
{
	return VMS_GUEST_HAS(guest, is_kernel_text) &&
	       guest->ops->is_kernel_text(guest->system, pc);
}

bool vms_guest_is_entry_text(const struct vms_guest *guest, uint64_t pc)
{
	return VMS_GUEST_HAS(guest, is_entry_text) && guest->ops->is_entry_text(guest->system, pc);
}

uint64_t vms_guest_pt_regs_record(const struct vms_guest *guest)
{
	return VMS_GUEST_HAS(guest, pt_regs_record) ? guest->ops->pt_regs_record(guest->system) : 0;
}

bool vms_guest_kernel_regs(struct vms_guest *guest, struct vms_regs *ret)
{
	const bool has = VMS_GUEST_HAS(guest, kernel_regs);
	if (has)
		guest->ops->kernel_regs(guest->system, ret);
	return has;
}

bool vms_guest_has_orc(const struct vms_guest *guest)
{
	return VMS_GUEST_HAS(guest, has_orc) && guest->ops->has_orc(guest->system);
}

bool vms_guest_orc(const struct vms_guest *guest, uint64_t pc, struct vms_orc_entry *ret)
{
	return vms_guest_has_orc(guest) && guest->ops->orc(guest->system, pc, ret);
}

/* ---- timers ----------------------------------------------------------- */

GArray *vms_guest_timers(struct vms_guest *guest, GError **error)
{
	return CAN_READ(guest, timers, "timers", error) ? guest->ops->timers(guest->system, error)
							: NULL;
}

GArray *vms_guest_clocks(struct vms_guest *guest, GError **error)
{
	return CAN_READ(guest, clocks, "clocks", error) ? guest->ops->clocks(guest->system, error)
							: NULL;
}

GArray *vms_guest_syscalls(struct vms_guest *guest, GError **error)
{
	return CAN_READ(guest, syscalls, "system calls", error)
		       ? guest->ops->syscalls(guest->system, error)
		       : NULL;
}

/* ---- log -------------------------------------------------------------- */

bool vms_guest_dmesg(struct vms_guest *guest,
		     void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		     void *data, GError **error)
{
	return CAN_READ(guest, dmesg, "log", error) &&
	       guest->ops->dmesg(guest->system, each, data, error);
}
