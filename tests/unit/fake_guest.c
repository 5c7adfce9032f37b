/* SPDX-License-Identifier: MIT */
#include "fake_guest.h"
#include "guest/guest-private.h"

#define MAX_VCPUS 8

struct symbol {
	struct vms_symbol_table *table; /* of this one */
	uint64_t va, size;
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

/* What a guest is made of. It has its own operations, by which it is found where it is unknown. */
struct fake {
	struct vms_guest_ops ops; /* first */
	const struct vms_arch *arch;
	struct vms_symbolizer *symbolizer;
	GArray *loaded; /* struct symbol, of modules */
	guint n_known;
	GArray *currents; /* struct current */
	struct vms_symbol_table *kernel;
	uint64_t kernel_start, kernel_end;
	GPtrArray *modules;
	GArray *code;	/* struct code */
	GArray *stamps; /* struct stamp */
	GArray *owners; /* struct owner, the latest first */
	unsigned code_reads;
	const char *vmcoreinfo;
	struct vms_types *types;
	struct script scripts[MAX_VCPUS];
	unsigned refreshes, all_known_at;
	bool is_incomplete;	  /* more of it will be known later */
	struct vms_module *later; /* a module that the next refresh finds, or NULL */
	unsigned table_follows;	  /* how often its page tables were followed */
};

/* What is found next, or NULL. */
static struct fake *next_found;
static bool *next_begins;
/* All of them, until the program ends: guests use their operations to the last. */
static GPtrArray *fakes;

static struct fake *fake_of(const struct vms_guest *guest)
{
	return guest->system ? guest->system : (struct fake *)guest->ops;
}

static void free_module(void *data)
{
	struct vms_module *module = data;
	g_free(module->name);
	vms_symbol_table_unref(module->symbols);
	g_free(module);
}

/* ---- the operations --------------------------------------------------- */

static void *detect(struct vms_machine *machine G_GNUC_UNUSED, char **why,
		    GError **error G_GNUC_UNUSED)
{
	struct fake *found = g_steal_pointer(&next_found);
	if (next_begins)
		*g_steal_pointer(&next_begins) = true;
	if (!found)
		*why = g_strdup("its memory is a fake");
	return found;
}

static void leave(void *system G_GNUC_UNUSED)
{
}

static char *describe(const void *system G_GNUC_UNUSED, struct vms_guest_info *ret)
{
	*ret = (struct vms_guest_info) {
		.name = "Linux", .release = "1.2.3", .version = "#1", .unwinder = "ORC"
	};
	return NULL;
}

static bool is_complete(const void *system)
{
	return !((const struct fake *)system)->is_incomplete;
}

static bool follow_tables(void *system, GError **error G_GNUC_UNUSED)
{
	((struct fake *)system)->table_follows++;
	return true;
}

static void get_image(const void *system, uint64_t *start, uint64_t *end)
{
	const struct fake *fake = system;
	*start = fake->kernel_start;
	*end = fake->kernel_end;
}

static struct vms_symbol_table *get_symbols(const void *system, unsigned index)
{
	return index == 0 ? ((const struct fake *)system)->kernel : NULL;
}

static const char *get_vmcoreinfo(const void *system)
{
	return ((const struct fake *)system)->vmcoreinfo;
}

static struct vms_symbolizer *get_symbolizer(const void *system)
{
	return ((const struct fake *)system)->symbolizer;
}

/* As much as is known. */
static void tell_loaded(const struct fake *fake)
{
	g_autoptr(GArray) loaded = g_array_new(FALSE, FALSE, sizeof(struct vms_mapping));
	for (guint i = 0; i < MIN(fake->loaded->len, fake->n_known); i++) {
		const struct symbol *symbol = &g_array_index(fake->loaded, struct symbol, i);
		const struct vms_mapping mapping = {
			.start = symbol->va,
			.end = symbol->va + symbol->size,
			.symbols = symbol->table,
			.kind = VMS_MAPPING_MODULE,
		};
		g_array_append_val(loaded, mapping);
	}
	vms_symbolizer_load(fake->symbolizer, (struct vms_mapping *)(void *)loaded->data,
			    loaded->len);
}

static bool refresh_modules(void *system, GError **error G_GNUC_UNUSED)
{
	struct fake *fake = system;
	fake->refreshes++;
	if (fake->later)
		g_ptr_array_add(fake->modules, g_steal_pointer(&fake->later));
	if (fake->refreshes == fake->all_known_at)
		fake->n_known = G_MAXUINT;
	tell_loaded(fake);
	return true;
}

static const GPtrArray *get_modules(const void *system)
{
	return ((const struct fake *)system)->modules;
}

static bool get_current(void *system, struct vms_memory *memory G_GNUC_UNUSED,
			const struct vms_regs *regs, struct vms_task *ret)
{
	const struct fake *fake = system;
	const uint64_t sp = regs->value[fake->arch->sp];
	for (guint i = 0; i < fake->currents->len; i++) {
		const struct current *current = &g_array_index(fake->currents, struct current, i);
		if (current->sp != sp)
			continue;
		*ret = current->task;
		return true;
	}
	return false;
}

static bool next_code(void *system, uint64_t mm, uint64_t va, unsigned *areas G_GNUC_UNUSED,
		      struct vms_mapping *ret)
{
	struct fake *fake = system;
	const struct vms_mapping *first = NULL;
	fake->code_reads++;
	for (guint i = 0; i < fake->code->len; i++) {
		const struct code *code = &g_array_index(fake->code, struct code, i);
		if (code->mm == mm && code->mapping.end > va &&
		    (!first || code->mapping.start < first->start))
			first = &code->mapping;
	}
	if (first)
		*ret = *first;
	return first != NULL;
}

static uint64_t get_stamp(void *system, uint64_t mm)
{
	const struct fake *fake = system;
	for (guint i = 0; i < fake->stamps->len; i++) {
		const struct stamp *stamp = &g_array_index(fake->stamps, struct stamp, i);
		if (stamp->mm == mm)
			return stamp->stamp;
	}
	return 1;
}

static bool task_has(void *system, uint64_t task, uint32_t pid, uint64_t mm)
{
	const struct fake *fake = system;
	for (guint i = 0; i < fake->owners->len; i++) {
		const struct owner *owner = &g_array_index(fake->owners, struct owner, i);
		if (owner->task == task)
			return owner->pid == pid && owner->mm == mm;
	}
	return false;
}

static struct vms_types *get_types(void *system, uint64_t va G_GNUC_UNUSED, GError **error)
{
	const struct fake *fake = system;
	if (fake->types)
		return vms_types_ref(fake->types);
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "the fake has no types");
	return NULL;
}

static const struct vms_guest_ops fake_ops = {
	.kind = VMS_GUEST_LINUX,
	.detect = detect,
	.free = leave,
	.describe = describe,
	.is_complete = is_complete,
	.follow_tables = follow_tables,
	.symbolizer = get_symbolizer,
	.image = get_image,
	.symbols = get_symbols,
	.vmcoreinfo = get_vmcoreinfo,
	.types = get_types,
	.refresh_modules = refresh_modules,
	.modules = get_modules,
	.current = get_current,
	.task_has = task_has,
	.next_code = next_code,
	.mappings_stamp = get_stamp,
};

/* ---- making one ------------------------------------------------------- */

struct vms_guest *fake_guest_new(struct vms_machine *machine, enum vms_guest_kind kind)
{
	struct fake *fake = g_new0(struct fake, 1);
	fake->ops = fake_ops;
	fake->arch = vms_machine_arch(machine);
	fake->symbolizer = vms_symbolizer_new();
	fake->loaded = g_array_new(FALSE, FALSE, sizeof(struct symbol));
	fake->n_known = G_MAXUINT;
	fake->currents = g_array_new(FALSE, FALSE, sizeof(struct current));
	fake->modules = g_ptr_array_new_with_free_func(free_module);
	fake->code = g_array_new(FALSE, FALSE, sizeof(struct code));
	fake->stamps = g_array_new(FALSE, FALSE, sizeof(struct stamp));
	fake->owners = g_array_new(FALSE, FALSE, sizeof(struct owner));
	if (!fakes)
		fakes = g_ptr_array_new();
	g_ptr_array_add(fakes, fake);
	next_found = kind == VMS_GUEST_NONE ? NULL : fake;
	return vms_guest_detect_system(machine, &fake->ops, NULL);
}

void fake_guest_boot(struct vms_guest *guest, bool completely)
{
	next_found = fake_of(guest);
	next_found->is_incomplete = !completely;
	guest->looked_ns = 0; /* it is not too soon to look again */
}

void fake_guest_find(struct vms_guest *guest, bool *begins)
{
	next_found = fake_of(guest);
	next_begins = begins;
	vms_guest_unref(guest);
}

void fake_guest_recognise(struct vms_guest *guest)
{
	fake_guest_boot(guest, true);
	g_assert_true(vms_guest_detect_again(guest, NULL));
}

unsigned fake_guest_table_follows(const struct vms_guest *guest)
{
	return fake_of(guest)->table_follows;
}

void fake_guest_add_symbol(struct vms_guest *guest, const char *name, const char *module,
			   uint64_t va, uint64_t size)
{
	struct fake *fake = fake_of(guest);
	struct symbol symbol = { vms_symbol_table_new(module), va, size };
	vms_symbol_table_add(symbol.table, name, va, size, 't');
	vms_symbol_table_finish(symbol.table, va + size);
	if (module) {
		g_array_append_val(fake->loaded, symbol);
		tell_loaded(fake);
		return;
	}
	const struct vms_mapping mapping = {
		.start = va,
		.end = va + size,
		.offset = va,
		.symbols = symbol.table,
		.kind = VMS_MAPPING_KERNEL,
	};
	vms_symbolizer_map(fake->symbolizer, VMS_KERNEL_SPACE, &mapping);
	vms_symbol_table_unref(symbol.table);
}

const struct vms_process *fake_guest_add_process(struct vms_guest *guest, const char *comm,
						 uint32_t pid, bool is_idle)
{
	struct vms_process process = { .pid = pid, .is_idle = is_idle };
	g_strlcpy(process.comm, comm, sizeof(process.comm));
	return vms_symbolizer_add_space(fake_of(guest)->symbolizer, &process);
}

unsigned fake_guest_refreshes(const struct vms_guest *guest)
{
	return fake_of(guest)->refreshes;
}

void fake_guest_hide_symbols(struct vms_guest *guest, unsigned known)
{
	struct fake *fake = fake_of(guest);
	fake->n_known = known;
	fake->all_known_at = fake->refreshes + 2;
	tell_loaded(fake);
}

void fake_guest_set_samples(struct vms_guest *guest, unsigned vcpu,
			    const struct fake_sample *samples, unsigned n)
{
	g_assert_cmpuint(vcpu, <, MAX_VCPUS);
	fake_of(guest)->scripts[vcpu] = (struct script) { samples, n, 0 };
}

const struct fake_sample *fake_guest_next_sample(const struct vms_guest *guest, unsigned vcpu)
{
	static const struct fake_sample idle = { .idle = true };
	if (guest->ops->detect != detect) /* it was looked for where there is none */
		return &idle;
	struct script *script = &fake_of(guest)->scripts[vcpu];
	return script->n ? &script->samples[script->next++ % script->n] : &idle;
}

void fake_guest_add_current(struct vms_guest *guest, uint64_t sp, uint32_t tid, bool is_idle)
{
	struct current current = { sp, { .tid = tid, .pid = tid, .is_idle = is_idle } };
	g_array_append_val(fake_of(guest)->currents, current);
}

void fake_guest_set_vmcoreinfo(struct vms_guest *guest, const char *text)
{
	fake_of(guest)->vmcoreinfo = text;
}

void fake_guest_set_kernel(struct vms_guest *guest, struct vms_symbol_table *table, uint64_t start,
			   uint64_t end)
{
	struct fake *fake = fake_of(guest);
	fake->kernel = vms_symbol_table_ref(table);
	fake->kernel_start = start;
	fake->kernel_end = end;
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
	g_ptr_array_add(fake_of(guest)->modules, make_module(name, text, size, table));
}

void fake_guest_load_later(struct vms_guest *guest, const char *name, uint64_t text, uint64_t size,
			   struct vms_symbol_table *table)
{
	fake_of(guest)->later = make_module(name, text, size, table);
}

void fake_guest_map(struct vms_guest *guest, uint64_t mm, const struct vms_mapping *mapping)
{
	const struct code code = { mm, *mapping };
	g_array_append_val(fake_of(guest)->code, code);
}

void fake_guest_unmap(struct vms_guest *guest, uint64_t mm)
{
	GArray *all = fake_of(guest)->code;
	for (guint i = all->len; i-- > 0;)
		if (g_array_index(all, struct code, i).mm == mm)
			g_array_remove_index(all, i);
}

void fake_guest_set_stamp(struct vms_guest *guest, uint64_t mm, uint64_t stamp)
{
	const struct stamp set = { mm, stamp };
	g_array_prepend_val(fake_of(guest)->stamps, set);
}

void fake_guest_set_task(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm)
{
	const struct owner owner = { task, mm, pid };
	g_array_prepend_val(fake_of(guest)->owners, owner);
}

void fake_guest_set_types(struct vms_guest *guest, struct vms_types *types)
{
	fake_of(guest)->types = vms_types_ref(types);
}

unsigned fake_guest_code_reads(const struct vms_guest *guest)
{
	return fake_of(guest)->code_reads;
}
