/* SPDX-License-Identifier: MIT */
#include "internals.h"

#include <dlfcn.h>
#include <string.h>

/* QEMU 10.0's: later ones let registers be read in callbacks of code alone. */
#define LAST_API 4

struct qemu_vcpu;      /* CPUState */
struct qemu_ram_block; /* RAMBlock */
union work_data {      /* run_on_cpu_data */
	unsigned index;
	uint64_t number;
};

static struct {
	struct qemu_vcpu *(*get_cpu)(int index);
	void (*async_run_on_cpu)(struct qemu_vcpu *vcpu,
				 void (*function)(struct qemu_vcpu *vcpu, union work_data data),
				 union work_data data);
	void (*bql_unlock)(void);
	void (*bql_lock)(const char *file, int line);
	/* Of the block that `address` lies in: NULL if in none. */
	struct qemu_ram_block *(*ram_block_from_host)(void *address, bool round, uint64_t *offset);
	void (*work)(unsigned vcpu);
} qemu;

/* POSIX has dlsym give functions as pointers to data. */
static bool find(const char *name, void *function)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	memcpy(function, &found, sizeof(found));
	return found;
}

bool internals_find(unsigned api, void (*work)(unsigned vcpu))
{
	qemu.work = work;
	return api <= LAST_API && find("qemu_get_cpu", &qemu.get_cpu) &&
	       find("async_run_on_cpu", &qemu.async_run_on_cpu) &&
	       find("bql_unlock", &qemu.bql_unlock) && find("bql_lock_impl", &qemu.bql_lock) &&
	       find("qemu_ram_block_from_host", &qemu.ram_block_from_host);
}

void *internals_vcpu(unsigned index)
{
	return qemu.get_cpu((int)index);
}

static void come(__attribute__((unused)) struct qemu_vcpu *vcpu, union work_data data)
{
	qemu.work(data.index);
}

void internals_queue(void *qemu_vcpu, unsigned index)
{
	qemu.async_run_on_cpu(qemu_vcpu, come, (union work_data) { .index = index });
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
