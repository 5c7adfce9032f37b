/* SPDX-License-Identifier: MIT */
#include "fake_guest.h"
#include "capture/capture.h"
#include <string.h>
#include <vmscope/facts.h>

#define MAX_VCPUS 8

struct symbol {
	const char *name, *module, *source;
	uint64_t va, size;
	unsigned line;
	uint32_t loaded; /* number of its module's code; 0: it stays for ever */
	bool is_gone;
};

struct script {
	const struct fake_sample *samples;
	unsigned n, next;
};

struct current {
	uint64_t sp;
	struct vms_task task;
};

struct code {
	uint64_t mm;
	struct vms_mapping mapping;
};

struct stamp {
	uint64_t mm, stamp;
};

struct owner {
	uint64_t task, mm;
	uint32_t pid;
};

struct symbol_file {
	struct vms_symbol_table *table;
	uint64_t base;
};

struct vms_guest {
	gatomicrefcount refs;
	struct vms_machine *machine;
	enum vms_guest_kind kind;
	struct vms_guest_info info;
	GArray *symbols; /* struct symbol */
	guint n_known;
	GPtrArray *processes;
	GArray *currents; /* struct current */
	struct vms_symbol_table *kernel;
	uint64_t kernel_start, kernel_end;
	GPtrArray *modules;
	GArray *symbol_files; /* struct symbol_file */
	GArray *code;	      /* struct code */
	GArray *stamps;	      /* struct stamp */
	GArray *owners;	      /* struct owner, the latest first */
	unsigned code_reads;
	const char *vmcoreinfo;
	struct script scripts[MAX_VCPUS];
	unsigned refreshes, all_known_at;
	uint64_t resets;	  /* of the machine, when it was made */
	bool is_incomplete;	  /* more of it will be known later */
	struct vms_module *later; /* a module that the next refresh finds, or NULL */
	bool boots;		  /* it is recognised when it is looked for again */
	unsigned table_follows;	  /* how often its page tables were followed */
	uint32_t unloads;
};

/* What vms_guest_detect finds next, or NULL. */
static struct vms_guest *next_found;
static bool *next_begins;

static void free_module(void *data)
{
	struct vms_module *module = data;
	g_free(module->name);
	vms_symbol_table_unref(module->symbols);
	g_free(module);
}

static void clear_symbol_file(void *data)
{
	vms_symbol_table_unref(((struct symbol_file *)data)->table);
}

/* Found by vms_guest_detect: there is no machine's memory to find a guest in. */
struct vms_guest *fake_guest_new(struct vms_machine *machine, enum vms_guest_kind kind)
{
	struct vms_guest *guest = g_new0(struct vms_guest, 1);
	g_atomic_ref_count_init(&guest->refs);
	guest->machine = vms_machine_ref(machine);
	guest->resets = vms_machine_resets(machine);
	if (kind == VMS_GUEST_LINUX)
		fake_guest_recognise(guest);
	guest->symbols = g_array_new(FALSE, FALSE, sizeof(struct symbol));
	guest->n_known = G_MAXUINT;
	guest->currents = g_array_new(FALSE, FALSE, sizeof(struct current));
	guest->processes = g_ptr_array_new_with_free_func(g_free);
	guest->modules = g_ptr_array_new_with_free_func(free_module);
	guest->symbol_files = g_array_new(FALSE, FALSE, sizeof(struct symbol_file));
	g_array_set_clear_func(guest->symbol_files, clear_symbol_file);
	guest->code = g_array_new(FALSE, FALSE, sizeof(struct code));
	guest->stamps = g_array_new(FALSE, FALSE, sizeof(struct stamp));
	guest->owners = g_array_new(FALSE, FALSE, sizeof(struct owner));
	return guest;
}

void fake_guest_boot(struct vms_guest *guest, bool completely)
{
	guest->boots = true;
	guest->is_incomplete = !completely;
}

void fake_guest_find(struct vms_guest *guest, bool *begins)
{
	next_found = guest;
	next_begins = begins;
}

unsigned fake_guest_table_follows(const struct vms_guest *guest)
{
	return guest->table_follows;
}

void fake_guest_recognise(struct vms_guest *guest)
{
	guest->kind = VMS_GUEST_LINUX;
	guest->info = (struct vms_guest_info) {
		.name = "Linux", .release = "1.2.3", .version = "#1", .unwinder = "ORC"
	};
}

void fake_guest_add_symbol(struct vms_guest *guest, const char *name, const char *module,
			   uint64_t va, uint64_t size)
{
	struct symbol symbol = { .name = name, .module = module, .va = va, .size = size };
	if (module && vms_machine_arch(guest->machine)->is_kernel_address(va))
		symbol.loaded = guest->unloads + 1;
	g_array_append_val(guest->symbols, symbol);
}

void fake_guest_unload(struct vms_guest *guest)
{
	guest->unloads++;
	for (guint i = 0; i < guest->symbols->len; i++) {
		struct symbol *symbol = &g_array_index(guest->symbols, struct symbol, i);
		symbol->is_gone = symbol->loaded > 0;
	}
}

void fake_guest_set_source(struct vms_guest *guest, const char *name, const char *source,
			   unsigned line)
{
	for (guint i = 0; i < guest->symbols->len; i++) {
		struct symbol *symbol = &g_array_index(guest->symbols, struct symbol, i);
		if (g_strcmp0(symbol->name, name) == 0) {
			symbol->source = source;
			symbol->line = line;
		}
	}
}

const struct vms_process *fake_guest_add_process(struct vms_guest *guest, const char *comm,
						 uint32_t pid, bool is_idle)
{
	struct vms_process *process = g_new0(struct vms_process, 1);
	process->pid = pid;
	process->is_idle = is_idle;
	process->index = guest->processes->len;
	g_strlcpy(process->comm, comm, sizeof(process->comm));
	g_ptr_array_add(guest->processes, process);
	return process;
}

unsigned fake_guest_refreshes(const struct vms_guest *guest)
{
	return guest->refreshes;
}

void fake_guest_hide_symbols(struct vms_guest *guest, unsigned known)
{
	guest->n_known = known;
	guest->all_known_at = guest->refreshes + 2;
}

void fake_guest_set_samples(struct vms_guest *guest, unsigned vcpu,
			    const struct fake_sample *samples, unsigned n)
{
	g_assert_cmpuint(vcpu, <, MAX_VCPUS);
	guest->scripts[vcpu] = (struct script) { samples, n, 0 };
}

void fake_guest_add_current(struct vms_guest *guest, uint64_t sp, uint32_t tid, bool is_idle)
{
	struct current current = { sp, { .tid = tid, .pid = tid, .is_idle = is_idle } };
	g_array_append_val(guest->currents, current);
}

void fake_guest_set_vmcoreinfo(struct vms_guest *guest, const char *text)
{
	guest->vmcoreinfo = text;
}

void fake_guest_set_kernel(struct vms_guest *guest, struct vms_symbol_table *table, uint64_t start,
			   uint64_t end)
{
	guest->kernel = vms_symbol_table_ref(table);
	guest->kernel_start = start;
	guest->kernel_end = end;
}

static struct vms_module *make_module(const char *name, uint64_t text, uint64_t size,
				      struct vms_symbol_table *table)
{
	const struct vms_module module = {
		.name = g_strdup(name),
		.text = text,
		.text_size = size,
		.size = size,
		.symbols = vms_symbol_table_ref(table),
	};
	return g_memdup2(&module, sizeof(module));
}

void fake_guest_add_module(struct vms_guest *guest, const char *name, uint64_t text, uint64_t size,
			   struct vms_symbol_table *table)
{
	g_ptr_array_add(guest->modules, make_module(name, text, size, table));
}

void fake_guest_load_later(struct vms_guest *guest, const char *name, uint64_t text, uint64_t size,
			   struct vms_symbol_table *table)
{
	guest->later = make_module(name, text, size, table);
}

void fake_guest_add_symbol_file(struct vms_guest *guest, struct vms_symbol_table *table,
				uint64_t base)
{
	const struct symbol_file file = { vms_symbol_table_ref(table), base };
	g_array_append_val(guest->symbol_files, file);
}

void fake_guest_map(struct vms_guest *guest, uint64_t mm, const struct vms_mapping *mapping)
{
	const struct code code = { mm, *mapping };
	g_array_append_val(guest->code, code);
}

void fake_guest_unmap(struct vms_guest *guest, uint64_t mm)
{
	for (guint i = guest->code->len; i-- > 0;)
		if (g_array_index(guest->code, struct code, i).mm == mm)
			g_array_remove_index(guest->code, i);
}

void fake_guest_set_stamp(struct vms_guest *guest, uint64_t mm, uint64_t stamp)
{
	const struct stamp set = { mm, stamp };
	g_array_prepend_val(guest->stamps, set);
}

void fake_guest_set_task(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm)
{
	const struct owner owner = { task, mm, pid };
	g_array_prepend_val(guest->owners, owner);
}

unsigned fake_guest_code_reads(const struct vms_guest *guest)
{
	return guest->code_reads;
}

/* ---- the guest layer -------------------------------------------------- */

struct vms_guest *vms_guest_detect(struct vms_machine *machine, GError **error G_GNUC_UNUSED)
{
	struct vms_guest *found = g_steal_pointer(&next_found);
	if (next_begins)
		*g_steal_pointer(&next_begins) = true;
	return found ? found : fake_guest_new(machine, VMS_GUEST_NONE);
}

bool vms_guest_take_reset(struct vms_guest *guest)
{
	bool was_reset = vms_guest_is_stale(guest);
	guest->resets = vms_machine_resets(guest->machine);
	return was_reset;
}

bool vms_guest_is_complete(const struct vms_guest *guest)
{
	return !guest->is_incomplete;
}

bool vms_guest_follow_tables(struct vms_guest *guest, GError **error G_GNUC_UNUSED)
{
	guest->table_follows++;
	return true;
}

void vms_guest_exchange(struct vms_guest *guest, struct vms_guest *other)
{
	struct vms_guest old = *guest;
	guest->kind = other->kind;
	guest->info = other->info;
	guest->modules = other->modules;
	guest->resets = other->resets;
	other->kind = old.kind;
	other->info = old.info;
	other->modules = old.modules;
	other->resets = old.resets;
}

bool vms_guest_is_stale(const struct vms_guest *guest)
{
	return vms_machine_resets(guest->machine) != guest->resets;
}

struct vms_guest *vms_guest_detect_anew(const struct vms_guest *guest, GError **error G_GNUC_UNUSED)
{
	return fake_guest_new(guest->machine, guest->kind);
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
	g_array_unref(guest->symbols);
	g_ptr_array_unref(guest->processes);
	g_array_unref(guest->currents);
	vms_symbol_table_unref(guest->kernel);
	g_ptr_array_unref(guest->modules);
	g_array_unref(guest->symbol_files);
	g_array_unref(guest->code);
	g_array_unref(guest->stamps);
	g_array_unref(guest->owners);
	vms_machine_unref(guest->machine);
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
	return guest->kind == VMS_GUEST_NONE ? "its memory is a fake" : NULL;
}

const char *vms_guest_vmcoreinfo(const struct vms_guest *guest)
{
	return guest->vmcoreinfo;
}

bool vms_guest_current(struct vms_guest *guest, struct vms_memory *memory G_GNUC_UNUSED,
		       const struct vms_regs *regs, struct vms_task *ret)
{
	uint64_t sp = regs->value[vms_machine_arch(guest->machine)->sp];
	for (guint i = 0; i < guest->currents->len; i++) {
		const struct current *current = &g_array_index(guest->currents, struct current, i);
		if (current->sp != sp)
			continue;
		*ret = current->task;
		return true;
	}
	return false;
}

const struct vms_process *vms_guest_process_get(struct vms_guest *guest, unsigned index)
{
	return index < guest->processes->len ? g_ptr_array_index(guest->processes, index) : NULL;
}

bool vms_guest_refresh_modules(struct vms_guest *guest, GError **error G_GNUC_UNUSED)
{
	guest->refreshes++;
	if (guest->later)
		g_ptr_array_add(guest->modules, g_steal_pointer(&guest->later));
	if (guest->refreshes == guest->all_known_at)
		guest->n_known = G_MAXUINT;
	return true;
}

const GPtrArray *vms_guest_modules(const struct vms_guest *guest)
{
	return guest->modules;
}

struct vms_symbol_table *vms_guest_kernel_symbols(const struct vms_guest *guest, uint64_t *start,
						  uint64_t *end)
{
	*start = guest->kernel_start;
	*end = guest->kernel_end;
	return guest->kernel ? vms_symbol_table_ref(guest->kernel) : NULL;
}

struct vms_symbol_table *vms_guest_symbol_file(const struct vms_guest *guest, unsigned index,
					       const char **name, uint64_t *base)
{
	if (index >= guest->symbol_files->len)
		return NULL;
	const struct symbol_file *file =
		&g_array_index(guest->symbol_files, struct symbol_file, index);
	*name = vms_symbol_table_module(file->table);
	*base = file->base;
	return vms_symbol_table_ref(file->table);
}

/* As if all of the file were one segment. */
static struct vms_symbol_table *offsets_of(const struct symbol_file *file)
{
	struct vms_symbol_table *offsets =
		vms_symbol_table_new(vms_symbol_table_module(file->table));
	for (size_t i = 0; i < vms_symbol_table_count(file->table); i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(file->table, i);
		vms_symbol_table_add(offsets, symbol.name, symbol.va - file->base, symbol.size,
				     symbol.type);
	}
	vms_symbol_table_finish(offsets, UINT64_MAX);
	return offsets;
}

struct vms_symbol_table *vms_guest_symbol_file_offsets(const struct vms_guest *guest,
						       const char *name)
{
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct symbol_file *file =
			&g_array_index(guest->symbol_files, struct symbol_file, i);
		if (strcmp(vms_symbol_table_module(file->table), name) == 0)
			return offsets_of(file);
	}
	return NULL;
}

bool vms_guest_next_code(struct vms_guest *guest, uint64_t mm, uint64_t va,
			 unsigned *areas G_GNUC_UNUSED, struct vms_mapping *ret)
{
	const struct vms_mapping *first = NULL;
	guest->code_reads++;
	for (guint i = 0; i < guest->code->len; i++) {
		const struct code *code = &g_array_index(guest->code, struct code, i);
		if (code->mm == mm && code->mapping.end > va &&
		    (!first || code->mapping.start < first->start))
			first = &code->mapping;
	}
	if (first)
		*ret = *first;
	return first != NULL;
}

uint64_t vms_guest_mappings_stamp(struct vms_guest *guest, uint64_t mm)
{
	for (guint i = 0; i < guest->stamps->len; i++) {
		const struct stamp *stamp = &g_array_index(guest->stamps, struct stamp, i);
		if (stamp->mm == mm)
			return stamp->stamp;
	}
	return 1;
}

bool vms_guest_task_has(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm)
{
	for (guint i = 0; i < guest->owners->len; i++) {
		const struct owner *owner = &g_array_index(guest->owners, struct owner, i);
		if (owner->task == task)
			return owner->pid == pid && owner->mm == mm;
	}
	return false;
}

bool vms_guest_detect_again(struct vms_guest *guest, GError **error G_GNUC_UNUSED)
{
	if (guest->boots)
		fake_guest_recognise(guest);
	return guest->boots;
}

/* The symbol at `va` of the code with that number, or where it is 0 of what is there now; or NULL.
 */
static const struct symbol *symbol_at(const struct vms_guest *guest, uint32_t loaded, uint64_t va)
{
	for (guint i = 0; i < MIN(guest->symbols->len, guest->n_known); i++) {
		const struct symbol *symbol = &g_array_index(guest->symbols, struct symbol, i);
		if (va >= symbol->va && va - symbol->va < symbol->size &&
		    (loaded ? symbol->loaded == loaded : !symbol->is_gone))
			return symbol;
	}
	return NULL;
}

uint32_t vms_guest_note_code(struct vms_guest *guest, uint64_t va)
{
	const struct symbol *symbol = symbol_at(guest, 0, va);
	return symbol ? symbol->loaded : 0;
}

bool vms_guest_locate_noted(struct vms_guest *guest, uint32_t number, uint64_t va,
			    struct vms_location *ret)
{
	const struct symbol *symbol = symbol_at(guest, number, va);
	*ret = (struct vms_location) { 0 };
	if (!symbol)
		return false;
	ret->symbol = symbol->name;
	ret->module = symbol->module;
	ret->offset = va - symbol->va;
	ret->start = symbol->name ? symbol->va : 0;
	ret->part = symbol->loaded ? symbol->va & ~(uint64_t)0xfff : 0;
	ret->source = symbol->source;
	ret->line = symbol->line - (va == symbol->va);
	return true;
}

bool vms_guest_locate(struct vms_guest *guest, const struct vms_process *process G_GNUC_UNUSED,
		      uint64_t va, struct vms_location *ret)
{
	return vms_guest_locate_noted(guest, 0, va, ret);
}

/* ---- the capture layer ------------------------------------------------ */

bool vms_capture_vcpu(struct vms_machine *machine, struct vms_guest *guest,
		      struct vms_memory *memory G_GNUC_UNUSED, unsigned vcpu, unsigned depth,
		      struct vms_sample_record *ret, GError **error)
{
	struct vms_regs regs;
	if (!vms_machine_regs(machine, vcpu, &regs, error))
		return false;

	static const struct fake_sample idle = { .idle = true };
	struct script *script = &guest->scripts[vcpu];
	const struct fake_sample *sample =
		script->n ? &script->samples[script->next++ % script->n] : &idle;
	struct vms_stack *stack = &ret->stack;

	ret->vcpu = vcpu;
	ret->code_changed = sample->code_changed;
	ret->idle = sample->idle;
	ret->pid = sample->process ? sample->process->pid : 0;
	ret->tid = ret->pid;
	ret->space = sample->process ? sample->process->index : VMS_NO_SPACE;
	stack->n = stack->n_kernel = 0;
	stack->end = stack->kernel_end = sample->end;
	for (const struct vms_frame *frame = sample->frames; frame->pc; frame++) {
		if (stack->n == depth) {
			stack->end = stack->kernel_end = VMS_WALK_DEPTH;
			break;
		}
		stack->n_kernel += !frame->is_user;
		stack->frame[stack->n++] = *frame;
	}
	return true;
}

/* ---- the unwind layer ------------------------------------------------- */

const char *vms_walk_end_text(enum vms_walk_end end)
{
	return end == VMS_WALK_ROOT ? "complete" : end == VMS_WALK_DEPTH ? "truncated" : "broken";
}

/* ---- facts ------------------------------------------------------------ */

GArray *vms_facts_list(struct vms_guest *guest G_GNUC_UNUSED)
{
	static const struct vms_fact facts[] = {
		{ "colour", "What colour it is", "", true },
		{ "weight", "How much it weighs", "", false },
		{ "age", "How old it is", "", true },
	};
	GArray *list = g_array_new(FALSE, FALSE, sizeof(struct vms_fact));
	g_array_append_vals(list, facts, G_N_ELEMENTS(facts));
	return list;
}

struct vms_table *vms_facts_get(struct vms_guest *guest G_GNUC_UNUSED, const char *name,
				GError **loss, GError **error)
{
	static const struct vms_column columns[] = { { "what", VMS_COLUMN_TEXT }, { NULL } };

	if (strcmp(name, "weight") == 0)
		g_set_error(loss, VMS_ERROR, VMS_ERROR_UNREADABLE, "its feet are not weighed");
	if (strcmp(name, "colour") != 0 && strcmp(name, "weight") != 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "nobody knows the %s", name);
		return NULL;
	}
	struct vms_table *table = vms_table_new(columns);
	vms_table_add(table, name[0] == 'c' ? "green" : "heavy");
	return table;
}
