/* SPDX-License-Identifier: MIT */
#include "agent/qemu/internals.h"

#include <dlfcn.h>
#include <glib.h>
#include <string.h>

/* QEMU 10.0's. Later versions allow reading registers only in callbacks of code. */
#define LAST_API 4

struct qemu_vcpu;      /* CPUState */
struct qemu_ram_block; /* RAMBlock */
union work_data {      /* run_on_cpu_data */
	unsigned index;
	uint64_t number;
};

/* QEMU's descriptions of a table of its state and of one field (VMStateDescription). */
struct state_field {
	const char *name; /* NULL: the end of the table */
	const char *hint;
	size_t offset, size, start;
	int n;
	size_t n_offset, size_offset;
	const void *kind;
	unsigned flags;
	const void *table;
	int version, table_version;
	void (*exists)(void);
};
struct state_table {
	const char *name;
	bool is_not_migrated, is_early;
	int version, minimum_version, priority;
	void (*functions[6])(void);
	const struct state_field *fields;
};

static struct {
	struct qemu_vcpu *(*get_cpu)(int index);
	void (*async_run_on_cpu)(struct qemu_vcpu *vcpu,
				 void (*function)(struct qemu_vcpu *vcpu, union work_data data),
				 union work_data data);
	void (*bql_unlock)(void);
	void (*bql_lock)(const char *file, int line);
	/* Returns the block that `address` lies in, or NULL. */
	struct qemu_ram_block *(*ram_block_from_host)(void *address, bool round, uint64_t *offset);
	/* Not every QEMU has these. */
	void *(*find_child)(void *object, const char *name);
	uint64_t (*get_apic_base)(void *apic);
	void (*work)(unsigned vcpu);
} qemu;

/* Writes the address to `function`, a pointer to a function: dlsym gives pointers to data. */
static bool find_symbol(const char *name, void *function)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	memcpy(function, &found, sizeof(found));
	return found;
}

bool internals_find(unsigned api, void (*work)(unsigned vcpu))
{
	qemu.work = work;
	find_symbol("object_resolve_path_component", &qemu.find_child);
	find_symbol("cpu_get_apic_base", &qemu.get_apic_base);
	return api <= LAST_API && find_symbol("qemu_get_cpu", &qemu.get_cpu) &&
	       find_symbol("async_run_on_cpu", &qemu.async_run_on_cpu) &&
	       find_symbol("bql_unlock", &qemu.bql_unlock) &&
	       find_symbol("bql_lock_impl", &qemu.bql_lock) &&
	       find_symbol("qemu_ram_block_from_host", &qemu.ram_block_from_host);
}

/* True if both lie in the same program or library. */
static bool is_beside(const void *pointer, const void *variable)
{
	Dl_info one, other;
	return dladdr(pointer, &one) && dladdr(variable, &other) &&
	       one.dli_fbase == other.dli_fbase;
}

struct internals_state internals_find_state(const char *name_of_table, const char *name)
{
	const struct internals_state none = { 0, 0 };
	const struct state_table *table;
	if (!find_symbol(name_of_table, &table) || !is_beside(table->name, table) ||
	    strcmp(table->name, "cpu") != 0 || !is_beside(table->fields, table))
		return none;
	for (const struct state_field *field = table->fields; field->name; field++) {
		if (!is_beside(field->name, table))
			return none;
		if (strcmp(field->name, name) == 0 &&
		    (field->size == sizeof(uint32_t) || field->size == sizeof(uint64_t)))
			return (struct internals_state) { field->offset, field->size };
	}
	return none;
}

uint64_t internals_read_state(const void *qemu_vcpu, struct internals_state state)
{
	uint64_t value = 0;
	memcpy(&value, (const uint8_t *)qemu_vcpu + state.offset, MIN(state.size, sizeof(value)));
	return value;
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

void *internals_vcpu(unsigned index)
{
	return qemu.get_cpu((int)index);
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
