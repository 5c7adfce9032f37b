/* SPDX-License-Identifier: MIT */
#include "agent/qemu/internals.h"

#include <dlfcn.h>
#include <glib.h>
#include <link.h>
#include <string.h>

/* Of QEMU 11.1, the newest version with which all of this was tested. */
#define LAST_API 7

struct qemu_vcpu;      /* CPUState */
struct qemu_ram_block; /* RAMBlock */
union work_data {      /* run_on_cpu_data */
	unsigned index;
	uint64_t number;
};

/* QEMU's description of a register (GDBRegDesc). */
struct qemu_register {
	int number;
	const char *name; /* NULL: it has none */
	const char *feature;
};

static struct {
	struct qemu_vcpu *(*get_cpu)(int index);
	void (*async_run_on_cpu)(struct qemu_vcpu *vcpu,
				 void (*function)(struct qemu_vcpu *vcpu, union work_data data),
				 union work_data data);
	void (*bql_unlock)(void);
	void (*bql_lock)(const char *file, int line);
	/* Returns the block that contains `address`, or NULL. */
	struct qemu_ram_block *(*ram_block_from_host)(void *address, bool round, uint64_t *offset);
	/* Returns struct qemu_register. */
	GArray *(*get_registers)(struct qemu_vcpu *vcpu);
	int (*read_register)(struct qemu_vcpu *vcpu, GByteArray *bytes, int number);
	/* These are optional. */
	void *(*find_child)(void *object, const char *name);
	uint64_t (*get_apic_base)(void *apic);
	void (*work)(unsigned vcpu); /* NULL: the internals are not used */
} qemu;

/* Writes a symbol's address to `function`, a pointer to a pointer to a function. */
static bool find_symbol(const char *name, void *function)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	memcpy(function, &found, sizeof(found));
	return found;
}

bool internals_find(unsigned api, void (*work)(unsigned vcpu))
{
	find_symbol("object_resolve_path_component", &qemu.find_child);
	find_symbol("cpu_get_apic_base", &qemu.get_apic_base);
	bool found = api <= LAST_API && find_symbol("qemu_get_cpu", &qemu.get_cpu) &&
		     find_symbol("async_run_on_cpu", &qemu.async_run_on_cpu) &&
		     find_symbol("bql_unlock", &qemu.bql_unlock) &&
		     find_symbol("bql_lock_impl", &qemu.bql_lock) &&
		     find_symbol("qemu_ram_block_from_host", &qemu.ram_block_from_host) &&
		     find_symbol("gdb_get_register_list", &qemu.get_registers) &&
		     find_symbol("gdb_read_register", &qemu.read_register);
	qemu.work = found ? work : NULL;
	return found;
}

/* ---- state ---------------------------------------------------------------- */

/* The memory of a loaded program or library. */
struct module {
	unsigned n;
	struct {
		uintptr_t begin, end;
	} segments[16];
};

static bool is_in(const struct module *module, uintptr_t address)
{
	for (unsigned i = 0; i < module->n; i++)
		if (address >= module->segments[i].begin && address < module->segments[i].end)
			return true;
	return false;
}

struct module_search {
	uintptr_t address;
	struct module found;
};

/* True if the searched address lies in this module. */
static int find_module(struct dl_phdr_info *info, __attribute__((unused)) size_t size, void *data)
{
	struct module_search *search = data;
	struct module *module = &search->found;
	module->n = 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD || module->n == G_N_ELEMENTS(module->segments))
			continue;
		module->segments[module->n].begin = begin;
		module->segments[module->n++].end = begin + segment->p_memsz;
	}
	return is_in(module, search->address);
}

/*
 * How QEMU lays out a table of its state (VMStateDescription) and its fields (VMStateField), in
 * bytes. A table begins with its name, and so does a field; a field without a name ends the table.
 */
struct state_layout {
	size_t fields; /* where the table points to its fields */
	size_t stride; /* from one field to the next */
	size_t offset, size;
	size_t table; /* of a structure: where the field points to the table of its members */
};
static const struct state_layout layouts[] = {
	{ 72, 104, 16, 24, 80 }, /* QEMU 10.0 */
	{ 96, 96, 8, 16, 72 },	 /* QEMU 11.1 */
};

/* Reads a pointer or a number. */
static uintptr_t read_word(uintptr_t base, size_t offset)
{
	uintptr_t value;
	memcpy(&value, (const void *)(base + offset), sizeof(value));
	return value;
}

/* Returns the string that the pointer at `address` points to. NULL if it is not a constant. */
static const char *read_name(const struct module *module, uintptr_t address)
{
	uintptr_t name = is_in(module, address) ? read_word(address, 0) : 0;
	return is_in(module, name) ? (const char *)name : NULL;
}

/* Finds a field of a table. 0: it is not there, or the table has another layout. */
static uintptr_t find_field(const struct module *module, uintptr_t table,
			    const struct state_layout *layout, const char *name)
{
	uintptr_t field = is_in(module, table) ? read_word(table, layout->fields) : 0;
	const char *found;
	while ((found = read_name(module, field)) && strcmp(found, name) != 0)
		field += layout->stride;
	return found ? field : 0;
}

static struct internals_state get_state(uintptr_t field, const struct state_layout *layout)
{
	return (struct internals_state) { read_word(field, layout->offset),
					  read_word(field, layout->size) };
}

/* Finds a field, or a member of it unless `member` is NULL. False: it is not there. */
static bool find_in_table(const struct module *module, uintptr_t table,
			  const struct state_layout *layout, const char *name, const char *member,
			  struct internals_state *ret)
{
	const uintptr_t field = find_field(module, table, layout, name);
	if (!field)
		return false;
	*ret = get_state(field, layout);
	if (!member)
		return true;
	const uintptr_t part = find_field(module, read_word(field, layout->table), layout, member);
	if (!part)
		return false;
	const size_t offset = ret->offset;
	*ret = get_state(part, layout);
	ret->offset += offset;
	return true;
}

static bool is_number(const struct internals_state *state)
{
	return state->size == sizeof(uint32_t) || state->size == sizeof(uint64_t);
}

/* Finds an array with `elements`, else a number. */
static struct internals_state find_state(const char *name_of_table, const char *name,
					 const char *member, bool elements)
{
	struct internals_state state;
	struct module_search search;
	const char *found;
	if (find_symbol(name_of_table, &search.address) && dl_iterate_phdr(find_module, &search) &&
	    (found = read_name(&search.found, search.address)) && strcmp(found, "cpu") == 0)
		for (size_t i = 0; i < G_N_ELEMENTS(layouts); i++)
			if (find_in_table(&search.found, search.address, &layouts[i], name, member,
					  &state) &&
			    (elements || is_number(&state)))
				return state;
	return (struct internals_state) { 0, 0 };
}

struct internals_state internals_find_state(const char *table, const char *name)
{
	return find_state(table, name, NULL, false);
}

struct internals_state internals_find_elements(const char *table, const char *name)
{
	return find_state(table, name, NULL, true);
}

struct internals_state internals_find_member(const char *table, const char *name,
					     const char *member)
{
	return find_state(table, name, member, false);
}

uint64_t internals_read_state(const void *qemu_vcpu, struct internals_state state)
{
	uint64_t value = 0;
	memcpy(&value, (const uint8_t *)qemu_vcpu + state.offset, MIN(state.size, sizeof(value)));
	return value;
}

void internals_copy_state(const void *qemu_vcpu, size_t offset, void *ret, size_t size)
{
	memcpy(ret, (const uint8_t *)qemu_vcpu + offset, size);
}

void internals_write_state(void *qemu_vcpu, struct internals_state state, uint64_t value)
{
	memcpy((uint8_t *)qemu_vcpu + state.offset, &value, MIN(state.size, sizeof(value)));
}

bool internals_read_apic_base(void *qemu_vcpu, uint64_t *ret)
{
	void *apic = NULL;
	if (qemu.find_child && qemu.get_apic_base)
		apic = qemu.find_child(qemu_vcpu, "lapic");
	if (apic)
		*ret = qemu.get_apic_base(apic);
	return apic;
}

/* ---- registers --------------------------------------------------------------- */

void internals_each_register(void *qemu_vcpu,
			     void (*each)(const char *name, int number, void *data), void *data)
{
	g_autoptr(GArray) found = qemu.get_registers(qemu_vcpu);
	for (guint i = 0; i < found->len; i++) {
		const struct qemu_register *reg = &g_array_index(found, struct qemu_register, i);
		if (reg->name)
			each(reg->name, reg->number, data);
	}
}

struct wanted {
	const char *const *names;
	unsigned n;
	int *numbers;
};

static void note_number(const char *name, int number, void *data)
{
	const struct wanted *wanted = data;
	for (unsigned i = 0; i < wanted->n; i++)
		if (wanted->numbers[i] < 0 && strcmp(name, wanted->names[i]) == 0)
			wanted->numbers[i] = number;
}

void internals_find_registers(void *qemu_vcpu, const char *const *names, unsigned n, int *numbers)
{
	struct wanted wanted = { names, n, numbers };
	for (unsigned i = 0; i < n; i++)
		numbers[i] = -1;
	internals_each_register(qemu_vcpu, note_number, &wanted);
}

void internals_read_register(void *qemu_vcpu, int number, GByteArray *bytes)
{
	qemu.read_register(qemu_vcpu, bytes, number);
}

/* ---- work ------------------------------------------------------------------ */

void *internals_vcpu(unsigned index)
{
	return qemu.work ? qemu.get_cpu((int)index) : NULL;
}

static void on_work(__attribute__((unused)) struct qemu_vcpu *vcpu, union work_data data)
{
	qemu.work(data.index);
}

void internals_queue(void *qemu_vcpu, unsigned index)
{
	qemu.async_run_on_cpu(qemu_vcpu, on_work, (union work_data) { .index = index });
}

void internals_unlock(void)
{
	qemu.bql_unlock();
}

void internals_lock(void)
{
	qemu.bql_lock(__FILE__, __LINE__);
}

bool internals_read_ram(uint64_t address, void *buf, size_t size)
{
	uint64_t offset;
	void *first = (void *)(uintptr_t)address, *last = (uint8_t *)first + size - 1;
	struct qemu_ram_block *block = qemu.ram_block_from_host(first, false, &offset);
	if (!block || block != qemu.ram_block_from_host(last, false, &offset))
		return false;
	memcpy(buf, first, size);
	return true;
}
