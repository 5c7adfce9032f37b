/* SPDX-License-Identifier: MIT */
/* One function per item of a machine's facts. */
#include "guest/kernel_code.h"
#include <string.h>
#include <vmscope/facts.h>
#include <vmscope/log.h>

/*
 * Limits of a list. No real guest reaches them. A guest may build page tables that go on for ever.
 */
#define MAX_MAPPINGS 100000
#define MAX_PAGES    (1 << 24)

/* Returns a table, or NULL with an error. An error beside a table says what the table lacks. */
typedef struct vms_table *(*fact_function)(struct vms_guest *guest, GError **error);

struct item {
	struct vms_fact fact;
	fact_function get;
};

static const struct vms_column name_value[] = { { "name", VMS_COLUMN_TEXT },
						{ "value", VMS_COLUMN_TEXT },
						{ NULL } };

/* ---- the operating system ---- */

static void add_address(struct vms_table *table, const char *name, uint64_t value)
{
	g_autofree char *text = g_strdup_printf("0x%" G_GINT64_MODIFIER "x", value);
	vms_table_add(table, name, text);
}

static struct vms_table *get_os(struct vms_guest *guest, GError **error)
{
	const struct vms_guest_info *info = vms_guest_info(guest);
	struct vms_table *table = vms_table_new(name_value);
	(void)error;
	if (vms_guest_kind(guest) == VMS_GUEST_NONE) {
		vms_table_add(table, "name", "none detected");
		vms_table_add(table, "why", vms_guest_why(guest));
		return table;
	}
	vms_table_add(table, "name", info->name);
	vms_table_add(table, "release", info->release);
	vms_table_add(table, "version", info->version);
	vms_table_add(table, "hostname", info->hostname);
	add_address(table, "text", info->text);
	add_address(table, "kaslr offset", info->kaslr_offset);
	vms_table_add(table, "stacks by", info->unwinder);
	vms_table_add(table, "types", info->types ? "BTF" : "none");
	vms_table_add(table, "found by", info->found_by);
	if (vms_guest_why(guest))
		vms_table_add(table, "not understood", vms_guest_why(guest));
	return table;
}

static struct vms_table *get_machine(struct vms_guest *guest, GError **error)
{
	const struct vms_machine_info *info = vms_machine_info(vms_guest_machine(guest));
	struct vms_table *table = vms_table_new(name_value);
	g_autofree char *pid = info->pid ? g_strdup_printf("%d", (int)info->pid) : NULL;
	(void)error;
	vms_table_add(table, "name", info->name);
	vms_table_add(table, "description", info->description);
	vms_table_add(table, "accelerator", info->accelerator);
	vms_table_add(table, "architecture", vms_machine_arch(vms_guest_machine(guest))->name);
	vms_table_add(table, "engine", info->engine);
	vms_table_add(table, "pid", pid);
	return table;
}

/* ---- vCPUs ---- */

typedef void (*vcpu_function)(struct vms_guest *guest, unsigned vcpu, const struct vms_regs *regs,
			      struct vms_table *table);

/* Holds or observes the machine, and calls `add` for every vCPU to fill a table. */
static struct vms_table *list_vcpus(struct vms_guest *guest, const struct vms_column *columns,
				    vcpu_function add, GError **error)
{
	struct vms_machine *machine = vms_guest_machine(guest);
	g_autoptr(vms_table) table = vms_table_new(columns);
	bool done = true; /* so far */
	if (!vms_machine_observe(machine, error))
		return NULL;
	for (unsigned i = 0; done && i < vms_machine_vcpus(machine); i++) {
		struct vms_regs regs;
		done = vms_machine_regs(machine, i, &regs, error);
		if (done)
			add(guest, i, &regs, table);
	}
	if (!vms_machine_release(machine, VMS_ALL_VCPUS, done ? error : NULL) || !done)
		return NULL;
	return g_steal_pointer(&table);
}

static void add_cpu(struct vms_guest *guest, unsigned vcpu, const struct vms_regs *regs,
		    struct vms_table *table)
{
	struct vms_machine *machine = vms_guest_machine(guest);
	const struct vms_arch *arch = vms_machine_arch(machine);
	g_autoptr(vms_memory) memory = vms_memory_new(machine, regs);
	struct vms_task task = { 0 };
	struct vms_location location = { 0 };
	const uint64_t pc = vms_arch_code_address(arch, regs);
	const uint64_t thread = (uint64_t)vms_machine_vcpu_thread(machine, vcpu);
	const bool in_kernel = arch->in_kernel(regs);
	bool known = vms_guest_current(guest, memory, regs, &task);
	if (in_kernel)
		vms_guest_note_kernel_pc(guest, memory, pc);
	vms_guest_locate(guest, NULL, pc, &location);
	vms_table_add(table, (uint64_t)vcpu, thread ? thread : VMS_TABLE_UNKNOWN,
		      in_kernel ? "kernel" : "user", pc, location.symbol,
		      known ? (uint64_t)task.pid : VMS_TABLE_UNKNOWN, known ? task.comm : NULL);
}

static struct vms_table *get_cpus(struct vms_guest *guest, GError **error)
{
	static const struct vms_column columns[] = {
		{ "vcpu", VMS_COLUMN_NUMBER }, { "thread", VMS_COLUMN_NUMBER },
		{ "mode", VMS_COLUMN_TEXT },   { "pc", VMS_COLUMN_ADDRESS },
		{ "symbol", VMS_COLUMN_TEXT }, { "pid", VMS_COLUMN_NUMBER },
		{ "task", VMS_COLUMN_TEXT },   { NULL }
	};
	return list_vcpus(guest, columns, add_cpu, error);
}

static void add_mode(struct vms_guest *guest, unsigned vcpu, const struct vms_regs *regs,
		     struct vms_table *table)
{
	const struct vms_arch *arch = vms_machine_arch(vms_guest_machine(guest));
	struct vms_code_mode mode;
	vms_arch_code_mode(arch, regs, &mode);
	vms_table_add(table, (uint64_t)vcpu, arch->paging_mode(regs), (uint64_t)mode.bits,
		      mode.code_base, mode.is_certain ? NULL : "assumed");
}

static struct vms_table *get_mode(struct vms_guest *guest, GError **error)
{
	static const struct vms_column columns[] = {
		{ "vcpu", VMS_COLUMN_NUMBER },	    { "mode", VMS_COLUMN_TEXT },
		{ "code_bits", VMS_COLUMN_NUMBER }, { "code_base", VMS_COLUMN_ADDRESS },
		{ "note", VMS_COLUMN_TEXT },	    { NULL }
	};
	return list_vcpus(guest, columns, add_mode, error);
}

static void add_registers(struct vms_guest *guest, unsigned vcpu, const struct vms_regs *regs,
			  struct vms_table *table)
{
	const struct vms_arch *arch = vms_machine_arch(vms_guest_machine(guest));
	for (unsigned i = 0; i < arch->n_regs; i++) {
		if (vms_regs_have(regs, i))
			vms_table_add(table, (uint64_t)vcpu, arch->regs[i].name, regs->value[i]);
	}
}

static struct vms_table *get_registers(struct vms_guest *guest, GError **error)
{
	static const struct vms_column columns[] = { { "vcpu", VMS_COLUMN_NUMBER },
						     { "register", VMS_COLUMN_TEXT },
						     { "value", VMS_COLUMN_ADDRESS },
						     { NULL } };
	return list_vcpus(guest, columns, add_registers, error);
}

/* ---- memory ---- */

static struct vms_table *list_ranges(struct vms_guest *guest, bool ram_only)
{
	static const char *const kinds[] = {
		[VMS_RANGE_RAM] = "RAM", [VMS_RANGE_ROM] = "ROM", [VMS_RANGE_MMIO] = "MMIO"
	};
	static const struct vms_column columns[] = {
		{ "address", VMS_COLUMN_ADDRESS }, { "bytes", VMS_COLUMN_ADDRESS },
		{ "size", VMS_COLUMN_BYTES },	   { "kind", VMS_COLUMN_TEXT },
		{ "name", VMS_COLUMN_TEXT },	   { NULL }
	};
	struct vms_table *table = vms_table_new(columns);
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(vms_guest_machine(guest), &n);
	for (size_t i = 0; i < n; i++) {
		if (!ram_only || ranges[i].kind == VMS_RANGE_RAM)
			vms_table_add(table, ranges[i].pa, ranges[i].size, ranges[i].size,
				      kinds[ranges[i].kind], ranges[i].name);
	}
	return table;
}

static struct vms_table *get_memory(struct vms_guest *guest, GError **error)
{
	(void)error;
	return list_ranges(guest, true);
}

static struct vms_table *get_handlers(struct vms_guest *guest, GError **error)
{
	(void)error;
	return list_ranges(guest, false);
}

static void add_mapping(struct vms_table *table, const struct vms_page *run, uint64_t page_size)
{
	const char flags[] = { 'r', run->writable ? 'w' : '-', run->executable ? 'x' : '-',
			       run->user ? 'u' : 'k', '\0' };
	vms_table_add(table, run->va, run->size, run->size, page_size, flags);
}

/* A list of mappings that is being filled. */
struct mapping_list {
	struct vms_table *table;
	struct vms_page run; /* adjacent pages of the same size and rights, not in the table yet */
	uint64_t page_size;  /* of the run's pages; 0 if there is no run yet */
	unsigned pages;	     /* pages that were visited */
};

static bool list_page(const struct vms_page *page, void *data)
{
	struct mapping_list *list = data;
	struct vms_page *run = &list->run;
	if (page->va == run->va + run->size && page->size == list->page_size &&
	    page->writable == run->writable && page->user == run->user &&
	    page->executable == run->executable) {
		run->size += page->size;
	} else {
		if (list->page_size)
			add_mapping(list->table, run, list->page_size);
		*run = *page;
		list->page_size = page->size;
	}
	return vms_table_rows(list->table) < MAX_MAPPINGS && ++list->pages < MAX_PAGES;
}

static struct vms_table *get_mappings(struct vms_guest *guest, GError **error)
{
	static const struct vms_column columns[] = {
		{ "address", VMS_COLUMN_ADDRESS }, { "bytes", VMS_COLUMN_ADDRESS },
		{ "size", VMS_COLUMN_BYTES },	   { "page", VMS_COLUMN_BYTES },
		{ "rights", VMS_COLUMN_TEXT },	   { NULL }
	};
	struct vms_machine *machine = vms_guest_machine(guest);
	struct vms_regs regs;
	if (!vms_machine_observe(machine, error))
		return NULL;
	bool done = vms_machine_regs(machine, 0, &regs, error);
	if (!vms_machine_release(machine, VMS_ALL_VCPUS, done ? error : NULL) || !done)
		return NULL;
	/* The guest runs while its page tables are read: they may have millions of entries. */
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	struct mapping_list list = { .table = vms_table_new(columns) };
	uint64_t steps = VMS_PAGE_STEPS;
	vms_memory_each_page(memory, 0, UINT64_MAX, &steps, list_page, &list);
	if (steps == 0)
		vms_log(VMS_LOG_WARNING, "page tables of the guest: too many to list them all");
	if (list.page_size)
		add_mapping(list.table, &list.run, list.page_size);
	return list.table;
}

/* ---- modules ---- */

static struct vms_table *get_modules(struct vms_guest *guest, GError **error)
{
	static const struct vms_column columns[] = { { "name", VMS_COLUMN_TEXT },
						     { "text", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_BYTES },
						     { NULL } };
	bool read = vms_guest_refresh_modules(guest, error);
	size_t n;
	const struct vms_module *const *modules = vms_guest_modules(guest, &n);
	if (!read && n == 0)
		return NULL;
	struct vms_table *table = vms_table_new(columns);
	for (size_t i = 0; i < n; i++)
		vms_table_add(table, modules[i]->name, modules[i]->text, modules[i]->size);
	return table;
}

/* ---- time ---- */

/* Calls `get` while the machine is held or observed. */
static GArray *get_held(struct vms_guest *guest, GArray *(*get)(struct vms_guest *, GError **),
			GError **error)
{
	struct vms_machine *machine = vms_guest_machine(guest);
	if (!vms_machine_observe(machine, error))
		return NULL;
	g_autoptr(GArray) found = get(guest, error);
	if (!vms_machine_release(machine, VMS_ALL_VCPUS, found ? error : NULL))
		return NULL;
	return g_steal_pointer(&found);
}

static struct vms_table *get_timers(struct vms_guest *guest, GError **error)
{
	static const struct vms_column columns[] = {
		{ "kind", VMS_COLUMN_TEXT },	  { "cpu", VMS_COLUMN_NUMBER },
		{ "name", VMS_COLUMN_TEXT },	  { "rating", VMS_COLUMN_NUMBER },
		{ "next_ns", VMS_COLUMN_NUMBER }, { NULL }
	};
	g_autoptr(GArray) clocks = get_held(guest, vms_guest_clocks, error);
	if (!clocks)
		return NULL;
	struct vms_table *table = vms_table_new(columns);
	for (size_t i = 0; i < clocks->len; i++) {
		const struct vms_clock *clock = &g_array_index(clocks, struct vms_clock, i);
		const bool device = clock->cpu != VMS_ALL_VCPUS;
		/* KTIME_MAX of the kernel says that the device will not interrupt. */
		const bool is_armed = device && clock->next_event_ns < INT64_MAX;
		vms_table_add(table, device ? "event device" : "clock source",
			      device ? (uint64_t)clock->cpu : VMS_TABLE_UNKNOWN, clock->name,
			      (uint64_t)clock->rating,
			      is_armed ? clock->next_event_ns : VMS_TABLE_UNKNOWN);
	}
	return table;
}

static struct vms_table *get_active_timers(struct vms_guest *guest, GError **error)
{
	static const struct vms_column columns[] = {
		{ "cpu", VMS_COLUMN_NUMBER },	     { "clock", VMS_COLUMN_TEXT },
		{ "expires_ns", VMS_COLUMN_NUMBER }, { "function", VMS_COLUMN_TEXT },
		{ "address", VMS_COLUMN_ADDRESS },   { NULL }
	};
	g_autoptr(GArray) timers = get_held(guest, vms_guest_timers, error);
	if (!timers)
		return NULL;
	struct vms_table *table = vms_table_new(columns);
	for (guint i = 0; i < timers->len; i++) {
		const struct vms_timer *timer = &g_array_index(timers, struct vms_timer, i);
		struct vms_location location;
		bool known = vms_guest_locate(guest, NULL, timer->function, &location);
		vms_table_add(table, (uint64_t)timer->cpu, timer->clock, timer->expires_ns,
			      known ? location.symbol : NULL, timer->function);
	}
	return table;
}

/* ---- the list ---- */

static const struct item items[] = {
	{ { "os", "Operating system", "name, version and address of the guest's kernel", true },
	  get_os },
	{ { "machine", "Machine", "what runs the guest", true }, get_machine },
	{ { "cpus", "vCPUs", "what every vCPU does now", true }, get_cpus },
	{ { "memory", "Memory", "RAM, by guest-physical address", true }, get_memory },
	{ { "mode", "Mode", "paging, and how wide the code is, of every vCPU", true }, get_mode },
	{ { "mappings", "Memory mappings", "virtual addresses that vCPU 0 has mapped", false },
	  get_mappings },
	{ { "handlers", "Memory handlers", "RAM, ROM and MMIO ranges and who answers there",
	    false },
	  get_handlers },
	{ { "modules", "Modules", "loaded kernel modules", false }, get_modules },
	{ { "activetimers", "Active timers",
	    "high-resolution timers of the guest that wait to expire", false },
	  get_active_timers },
	{ { "timers", "Timers", "what the guest's kernel counts time by, and what wakes its CPUs",
	    false },
	  get_timers },
	{ { "registers", "Registers", "of every vCPU", false }, get_registers },
};

GArray *vms_facts_list(struct vms_guest *guest)
{
	GArray *list = g_array_new(FALSE, FALSE, sizeof(struct vms_fact));
	size_t n;
	const struct vms_machine_item *own = guest ? vms_machine_items(vms_guest_machine(guest), &n)
						   : vms_machine_known_items(&n);
	for (size_t i = 0; i < G_N_ELEMENTS(items); i++)
		g_array_append_val(list, items[i].fact);
	for (size_t i = 0; i < n; i++) {
		struct vms_fact fact = { own[i].name, own[i].name, own[i].help, false };
		g_array_append_val(list, fact);
	}
	return list;
}

static bool is_engine_item(struct vms_machine *machine, const char *name)
{
	size_t n;
	const struct vms_machine_item *own = vms_machine_items(machine, &n);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(own[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Returns the engine's text as a table with a row for each line. */
static struct vms_table *get_engine_item(struct vms_machine *machine, const char *name,
					 GError **error)
{
	static const struct vms_column columns[] = { { "text", VMS_COLUMN_TEXT }, { NULL } };
	g_autofree char *text = vms_machine_item_text(machine, name, error);
	if (!text)
		return NULL;
	struct vms_table *table = vms_table_new(columns);
	g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
	for (char **line = lines; *line; line++)
		vms_table_add(table, g_strchomp(*line));
	return table;
}

/* Gets one item. An error that comes with a table goes to `loss`. */
static struct vms_table *get_item(const struct item *item, struct vms_guest *guest, GError **loss,
				  GError **error)
{
	GError *failure = NULL;
	g_autoptr(vms_table) table = item->get(guest, &failure);
	if (failure)
		g_propagate_error(table ? loss : error, failure);
	return g_steal_pointer(&table);
}

struct vms_table *vms_facts_get(struct vms_guest *guest, const char *name, GError **loss,
				GError **error)
{
	struct vms_machine *machine = vms_guest_machine(guest);
	for (size_t i = 0; i < G_N_ELEMENTS(items); i++) {
		if (strcmp(items[i].fact.name, name) == 0)
			return get_item(&items[i], guest, loss, error);
	}
	if (is_engine_item(machine, name))
		return get_engine_item(machine, name, error);
	g_autoptr(GArray) list = vms_facts_list(guest);
	g_autoptr(GString) names = g_string_new(NULL);
	for (size_t i = 0; i < list->len; i++)
		g_string_append_printf(names, " %s", g_array_index(list, struct vms_fact, i).name);
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT, "no item \"%s\": there are%s",
		    name, names->str);
	return NULL;
}
