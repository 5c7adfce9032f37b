/* SPDX-License-Identifier: MIT */
/* What runs in a machine: dispatches to the operating system that was found. */
#include "base/clock.h"
#include "guest/guest-private.h"
#include "guest/linux/linux.h"
#include <vmscope/log.h>

static void clear_symbols(void *data)
{
	struct vms_guest_symbols *symbols = data;
	vms_symbol_table_unref(symbols->table);
	vms_symbol_file_close(symbols->file);
}

static void take_linux(struct vms_guest *guest, struct vms_linux *linux_guest)
{
	guest->kind = VMS_GUEST_LINUX;
	guest->linux_guest = linux_guest;
	guest->info = (struct vms_guest_info) {
		.name = "Linux",
		.release = linux_guest->release,
		.version = linux_guest->version,
		.banner = linux_guest->banner,
		.hostname = linux_guest->hostname,
		.unwinder = linux_guest->orc ? "ORC" : "frame pointers",
		.found_by = linux_guest->found_by,
		.text = linux_guest->image,
		.kaslr_offset = linux_guest->kaslr_offset,
		.types = linux_guest->btf != NULL,
	};
	if (vms_symbol_table_count(linux_guest->symbols) == 0)
		guest->why = g_strdup("the kernel carries no symbols (kallsyms): give its vmlinux "
				      "with --symbols");
	else if (linux_guest->missing)
		guest->why = g_strdup(linux_guest->missing);
	else if (!linux_guest->btf)
		guest->why = g_strdup("the kernel carries no types (BTF): tasks, modules and "
				      "memory areas cannot be read");
}

static bool look(struct vms_guest *guest, GError **error)
{
	GError *failure = NULL;
	uint64_t begin_ns = vms_clock_now_ns();
	g_clear_pointer(&guest->why, g_free);
	struct vms_linux *linux_guest = vms_linux_detect(guest->machine, &guest->why, &failure);
	guest->looked_ns = vms_clock_now_ns();
	guest->look_took_ns = guest->looked_ns - begin_ns;
	if (linux_guest)
		take_linux(guest, linux_guest);
	if (failure)
		g_propagate_error(error, failure);
	return !failure;
}

struct vms_guest *vms_guest_detect(struct vms_machine *machine, GError **error)
{
	g_autoptr(vms_guest) guest = g_new0(struct vms_guest, 1);
	g_atomic_ref_count_init(&guest->refs);
	guest->machine = vms_machine_ref(machine);
	guest->resets = vms_machine_resets(machine);
	guest->symbol_files = g_array_new(FALSE, FALSE, sizeof(struct vms_guest_symbols));
	g_array_set_clear_func(guest->symbol_files, clear_symbols);
	return look(guest, error) ? g_steal_pointer(&guest) : NULL;
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

/* Adds another guest's symbol file. Where no kernel is known yet, nor is where its vmlinux lies. */
static bool add_again(struct vms_guest *guest, const struct vms_guest_symbols *symbols,
		      GError **error)
{
	if (symbols->is_kernel && !guest->linux_guest) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "the guest's kernel is not recognised any more");
		return false;
	}
	struct vms_symbol_file *file =
		vms_symbol_file_open(vms_symbol_file_path(symbols->file), error);
	return file && vms_guest_add_symbols(guest, file,
					     symbols->is_placed ? &symbols->base : NULL, error);
}

struct vms_guest *vms_guest_detect_anew(const struct vms_guest *guest, GError **error)
{
	g_autoptr(vms_guest) anew = vms_guest_detect(guest->machine, error);
	for (guint i = 0; anew && i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		g_autoptr(GError) failure = NULL;
		if (!add_again(anew, symbols, &failure))
			vms_log(VMS_LOG_WARNING, "without the symbols of %s: %s",
				vms_symbol_file_path(symbols->file), failure->message);
	}
	return g_steal_pointer(&anew);
}

bool vms_guest_detect_again(struct vms_guest *guest, GError **error)
{
	bool too_soon = vms_clock_now_ns() - guest->looked_ns < 10 * guest->look_took_ns;
	bool in_vain = too_soon || vms_machine_info(guest->machine)->is_core;
	return guest->kind == VMS_GUEST_NONE && !in_vain && look(guest, error) &&
	       guest->kind != VMS_GUEST_NONE;
}

/* A kernel is complete when all its parts were found, and its own page tables with them. */
bool vms_guest_is_complete(const struct vms_guest *guest)
{
	const struct vms_linux *linux_guest = guest->linux_guest;
	return linux_guest && linux_guest->has_own_tables && !linux_guest->missing &&
	       linux_guest->tasks && linux_guest->modules;
}

bool vms_guest_follow_tables(struct vms_guest *guest, GError **error)
{
	struct vms_regs regs;
	if (!guest->linux_guest || guest->linux_guest->has_own_tables)
		return true;
	if (!vms_machine_hold(guest->machine, 0, error))
		return false;
	bool read = vms_machine_regs(guest->machine, 0, &regs, error);
	if (read)
		vms_linux_renew_tables(guest->linux_guest, &regs);
	return vms_machine_release(guest->machine, 0, read ? error : NULL) && read;
}

void vms_guest_exchange(struct vms_guest *guest, struct vms_guest *other)
{
	const struct vms_guest old = *guest;
	guest->kind = other->kind;
	guest->info = other->info;
	guest->why = other->why;
	guest->linux_guest = other->linux_guest;
	guest->resets = other->resets;
	other->resets = old.resets;
	other->kind = old.kind;
	other->info = old.info;
	other->why = old.why;
	other->linux_guest = old.linux_guest;
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
	g_array_unref(guest->symbol_files);
	vms_linux_free(guest->linux_guest);
	vms_machine_unref(guest->machine);
	g_free(guest->why);
	g_free(guest);
}

enum vms_guest_kind vms_guest_kind(const struct vms_guest *guest)
{
	return guest->kind;
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
	return guest->linux_guest ? guest->linux_guest->vmcoreinfo : NULL;
}

bool vms_guest_is_kernel_text(const struct vms_guest *guest, uint64_t pc)
{
	return guest->linux_guest && vms_linux_is_text(guest->linux_guest, pc);
}

bool vms_guest_is_entry_text(const struct vms_guest *guest, uint64_t pc)
{
	return guest->linux_guest && pc >= guest->linux_guest->entry_text.begin &&
	       pc < guest->linux_guest->entry_text.end;
}

uint64_t vms_guest_pt_regs_record(const struct vms_guest *guest)
{
	return guest->linux_guest ? guest->linux_guest->pt_regs_record : 0;
}

bool vms_guest_has_orc(const struct vms_guest *guest)
{
	return guest->linux_guest && guest->linux_guest->orc;
}

bool vms_guest_orc(struct vms_guest *guest, uint64_t pc, struct vms_orc_entry *ret)
{
	return vms_guest_has_orc(guest) && vms_linux_orc_at(guest->linux_guest, pc, ret);
}

/* ---- symbols ---------------------------------------------------------- */

/* Is this the vmlinux of the guest's kernel? Then *bias is what KASLR moved it by. */
static bool is_kernel_file(const struct vms_linux *guest, const struct vms_symbol_file *file,
			   uint64_t *bias)
{
	uint64_t text;
	if (!vms_symbol_file_lookup(file, "_text", &text) &&
	    !vms_symbol_file_lookup(file, "_stext", &text))
		return false;
	*bias = guest->image - text;
	return true;
}

/* Does the file place another symbol, after all code, where the guest's kernel has it? */
static bool is_same_build(const struct vms_linux *guest, const struct vms_symbol_file *file,
			  uint64_t bias)
{
	uint64_t in_file, in_guest;
	return !vms_linux_symbol(guest, "_etext", &in_guest) ||
	       !vms_symbol_file_lookup(file, "_etext", &in_file) || in_file + bias == in_guest;
}

bool vms_guest_add_symbols(struct vms_guest *guest, struct vms_symbol_file *file,
			   const uint64_t *address, GError **error)
{
	struct vms_guest_symbols symbols = { .file = file, .is_placed = address != NULL };
	uint64_t bias = 0;
	if (guest->linux_guest)
		symbols.is_kernel = is_kernel_file(guest->linux_guest, file, &bias);
	if (address) {
		bias = *address - vms_symbol_file_base(file);
	} else if (symbols.is_kernel && !is_same_build(guest->linux_guest, file, bias)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot use the symbol file: it is the vmlinux of another kernel than "
			    "the guest's %s",
			    guest->info.release);
		vms_symbol_file_close(file);
		return false;
	}
	vms_symbol_file_set_bias(file, bias);
	symbols.base = vms_symbol_file_base(file) + bias;
	symbols.table = vms_symbol_file_table(file);
	g_array_append_val(guest->symbol_files, symbols);
	return true;
}

/* What the guest itself says of `va`. */
static bool locate_in_guest(const struct vms_guest *guest, const struct vms_process *process,
			    uint64_t va, struct vms_location *ret)
{
	struct vms_linux *linux_guest = guest->linux_guest;
	if (!linux_guest)
		return false;
	if (linux_guest->arch->is_kernel_address(va))
		return vms_linux_locate_kernel(linux_guest, va, ret);
	return process &&
	       vms_linux_locate_user(linux_guest, process, va, &ret->module, &ret->offset);
}

/* Adds what symbol files know: the name where there is none yet, and the line. */
static bool locate_in_files(const struct vms_guest *guest, uint64_t va, struct vms_location *ret)
{
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		struct vms_symbol symbol;
		if (!vms_symbol_table_find(symbols->table, va, &symbol))
			continue;
		vms_symbol_file_line(symbols->file, va, &ret->source, &ret->line);
		if (ret->symbol)
			return true;
		ret->symbol = symbol.name;
		ret->module = symbols->is_kernel ? NULL : vms_symbol_table_module(symbols->table);
		ret->offset = va - symbol.va;
		ret->start = symbol.va;
		ret->size = symbol.size;
		return true;
	}
	return false;
}

uint32_t vms_guest_note_code(struct vms_guest *guest, uint64_t va)
{
	return guest->linux_guest ? vms_linux_note_code(guest->linux_guest, va) : 0;
}

bool vms_guest_locate_noted(struct vms_guest *guest, uint32_t number, uint64_t va,
			    struct vms_location *ret)
{
	*ret = (struct vms_location) { 0 };
	bool in_guest =
		guest->linux_guest && vms_linux_locate_noted(guest->linux_guest, number, va, ret);
	bool in_files = locate_in_files(guest, va, ret);
	return in_guest || in_files;
}

bool vms_guest_code_changed(struct vms_guest *guest, struct vms_memory *memory, uint64_t va)
{
	return guest->linux_guest && vms_linux_code_changed(guest->linux_guest, memory, va);
}

bool vms_guest_locate(struct vms_guest *guest, const struct vms_process *process, uint64_t va,
		      struct vms_location *ret)
{
	*ret = (struct vms_location) { 0 };
	bool in_guest = locate_in_guest(guest, process, va, ret);
	bool in_files = locate_in_files(guest, va, ret);
	return in_guest || in_files;
}

/* Calls `each` for the symbols of a table called `name`, or all; their number. */
static size_t lookup_in_table(
	const struct vms_symbol_table *table, const char *module, const char *name,
	void (*each)(const struct vms_symbol *symbol, const char *module, void *data), void *data)
{
	size_t n = 0, cursor = 0;
	struct vms_symbol symbol;
	if (name) {
		for (; vms_symbol_table_next(table, name, &cursor, &symbol); n++)
			each(&symbol, module, data);
		return n;
	}
	for (; n < vms_symbol_table_count(table); n++) {
		symbol = vms_symbol_table_get(table, n);
		each(&symbol, module, data);
	}
	return n;
}

size_t vms_guest_lookup(struct vms_guest *guest, const char *name,
			void (*each)(const struct vms_symbol *symbol, const char *module,
				     void *data),
			void *data)
{
	size_t n = 0, in_kernel = 0;
	if (guest->linux_guest)
		in_kernel = lookup_in_table(guest->linux_guest->symbols, NULL, name, each, data);
	n += in_kernel;
	const GPtrArray *modules = vms_guest_modules(guest);
	for (guint i = 0; modules && i < modules->len; i++) {
		const struct vms_module *module = modules->pdata[i];
		n += lookup_in_table(module->symbols, module->name, name, each, data);
	}
	if (guest->linux_guest && guest->linux_guest->bpf)
		n += lookup_in_table(guest->linux_guest->bpf,
				     vms_symbol_table_module(guest->linux_guest->bpf), name, each,
				     data);
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		/* The kernel's file repeats what the kernel says itself. */
		if (symbols->is_kernel && in_kernel > 0)
			continue;
		n += lookup_in_table(symbols->table, vms_symbol_table_module(symbols->table), name,
				     each, data);
	}
	return n;
}

/* Its own, or where it has none those of its vmlinux. */
struct vms_symbol_table *vms_guest_kernel_symbols(const struct vms_guest *guest, uint64_t *start,
						  uint64_t *end)
{
	if (!guest->linux_guest)
		return NULL;
	struct vms_symbol_table *table = guest->linux_guest->symbols;
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		if (symbols->is_kernel && vms_symbol_table_count(table) == 0)
			table = symbols->table;
	}
	*start = guest->linux_guest->image;
	*end = guest->linux_guest->image_end;
	return vms_symbol_table_ref(table);
}

struct vms_symbol_table *vms_guest_symbol_file(const struct vms_guest *guest, unsigned index,
					       const char **name, uint64_t *base)
{
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		if (symbols->is_kernel || index-- > 0)
			continue;
		*name = vms_symbol_table_module(symbols->table);
		*base = symbols->base;
		return vms_symbol_table_ref(symbols->table);
	}
	return NULL;
}

struct vms_symbol_table *vms_guest_symbol_file_offsets(const struct vms_guest *guest,
						       const char *name)
{
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		if (!symbols->is_kernel &&
		    strcmp(vms_symbol_table_module(symbols->table), name) == 0)
			return vms_symbol_file_offsets(symbols->file);
	}
	return NULL;
}

/* ---- modules ---------------------------------------------------------- */

/* A guest that is not understood cannot be asked. */
static bool is_linux(const struct vms_guest *guest, const char *what, GError **error)
{
	if (guest->linux_guest)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "cannot read the guest's %s: no operating system was recognised (%s)", what,
		    guest->why);
	return false;
}

bool vms_guest_refresh_modules(struct vms_guest *guest, GError **error)
{
	if (!is_linux(guest, "modules", error))
		return false;
	vms_linux_bpf_refresh(guest->linux_guest);
	return vms_linux_modules_refresh(guest->linux_guest, error);
}

const GPtrArray *vms_guest_modules(const struct vms_guest *guest)
{
	return guest->linux_guest ? vms_linux_modules_list(guest->linux_guest) : NULL;
}

/* ---- tasks ------------------------------------------------------------ */

bool vms_guest_current(struct vms_guest *guest, struct vms_memory *memory,
		       const struct vms_regs *regs, struct vms_task *ret)
{
	return guest->linux_guest && vms_linux_current(guest->linux_guest, memory, regs, ret);
}

GArray *vms_guest_tasks(struct vms_guest *guest, GError **loss, GError **error)
{
	return is_linux(guest, "tasks", error)
		       ? vms_linux_tasks_list(guest->linux_guest, loss, error)
		       : NULL;
}

bool vms_guest_task_layout(const struct vms_guest *guest, struct vms_task_layout *ret)
{
	return guest->linux_guest && vms_linux_task_layout(guest->linux_guest, ret);
}

bool vms_guest_task_regs(struct vms_guest *guest, const struct vms_task *task, struct vms_regs *ret,
			 GError **error)
{
	return is_linux(guest, "tasks", error) &&
	       vms_linux_task_regs(guest->linux_guest, task, ret, error);
}

const struct vms_process *vms_guest_process(struct vms_guest *guest, const struct vms_task *task)
{
	return guest->linux_guest ? vms_linux_process(guest->linux_guest, task) : NULL;
}

const struct vms_process *vms_guest_process_get(struct vms_guest *guest, unsigned index)
{
	return guest->linux_guest ? vms_linux_process_get(guest->linux_guest, index) : NULL;
}

void vms_guest_note_kernel_pc(struct vms_guest *guest, struct vms_memory *memory, uint64_t va)
{
	if (guest->linux_guest)
		vms_linux_note_trampoline(guest->linux_guest, memory, va);
}

void vms_guest_note_address(struct vms_guest *guest, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va)
{
	if (guest->linux_guest && process)
		vms_linux_note_address(guest->linux_guest, memory, process, va);
}

bool vms_guest_next_code(struct vms_guest *guest, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret)
{
	return guest->linux_guest && vms_linux_next_code(guest->linux_guest, mm, va, areas, ret);
}

uint64_t vms_guest_mappings_stamp(struct vms_guest *guest, uint64_t mm)
{
	return guest->linux_guest ? vms_linux_mappings_stamp(guest->linux_guest, mm) : 0;
}

bool vms_guest_task_has(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm)
{
	return guest->linux_guest && vms_linux_task_has(guest->linux_guest, task, pid, mm);
}

GArray *vms_guest_timers(struct vms_guest *guest, GError **error)
{
	return is_linux(guest, "timers", error) ? vms_linux_timers(guest->linux_guest, error)
						: NULL;
}

GArray *vms_guest_clocks(struct vms_guest *guest, GError **error)
{
	return is_linux(guest, "clocks", error) ? vms_linux_clocks(guest->linux_guest, error)
						: NULL;
}

/* ---- log -------------------------------------------------------------- */

bool vms_guest_dmesg(struct vms_guest *guest,
		     void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		     void *data, GError **error)
{
	return is_linux(guest, "log", error) &&
	       vms_linux_dmesg(guest->linux_guest, each, data, error);
}
