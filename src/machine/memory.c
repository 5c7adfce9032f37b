/* SPDX-License-Identifier: MIT */
#include "base/budget.h"
#include "base/text.h"
#include "machine/engine.h"
#include "machine/memory-private.h"
#include <string.h>

#define CACHE_PAGE  4096
#define CACHE_BYTES (512 * CACHE_PAGE)
/* Where many blocks can be read at once, small ones take less time: little of a page is used. */
#define CACHE_PART   1024
#define CACHE_BLOCKS (CACHE_BYTES / VMS_PREFETCH_SIZE) /* at most */
#define CACHE_WAYS   4
/* Spreads blocks over the cache: what each vCPU has for itself lies at distances of 2^n. */
#define SPREAD	     UINT64_C(0x9e3779b97f4a7c15)
#define CACHE_WALKS  256
#define CACHED_BYTES 2048   /* longest read that goes through the cache: half a table of pages */
#define START_BYTES  65536u /* see vms_memory_read_start */
/* How many blocks of an epoch to read ahead in the next one. A sample of a vCPU uses some ten. */
#define USED_MAX 512

/* A block of physical memory. The cache reads a block as a whole. */
struct cached_block {
	uint64_t epoch; /* in which it was read */
	uint64_t used;	/* the last epoch in which it was used */
	uint64_t pa;
};

/* A translated address. */
struct cached_walk {
	uint64_t epoch; /* in which it was translated */
	struct vms_page page;
};

/* The blocks that were used in an epoch, in the order of their first use. */
struct used_blocks {
	uint64_t epoch;
	size_t n;
	uint64_t pa[USED_MAX];
};

/*
 * An entry is valid only in the epoch in which it was made. A walk has one place in its cache, a
 * block one of CACHE_WAYS.
 */
struct vms_memory {
	struct vms_machine *machine;
	struct vms_budget *budget; /* NULL: reading is free */
	const struct vms_arch *arch;
	int vcpu; /* whose epochs count, or VMS_ALL_VCPUS */
	bool is_urgent;
	size_t block_size;
	struct vms_regs regs;
	struct cached_walk walks[CACHE_WALKS];
	struct cached_block blocks[CACHE_BLOCKS];
	uint8_t bytes[CACHE_BYTES]; /* of the blocks */
	struct used_blocks used;
};

/* The block at `pa` if it was read in this epoch, else the place for it: the oldest that it has. */
static struct cached_block *get_slot(struct vms_memory *memory, uint64_t epoch, uint64_t pa)
{
	const size_t n_sets = CACHE_BYTES / memory->block_size / CACHE_WAYS;
	const uint64_t hash = pa / memory->block_size * SPREAD >> 32;
	struct cached_block *set = &memory->blocks[hash % n_sets * CACHE_WAYS], *oldest = set;
	for (unsigned i = 0; i < CACHE_WAYS; i++) {
		if (set[i].epoch == epoch && set[i].pa == pa)
			return &set[i];
		if (set[i].epoch < oldest->epoch)
			oldest = &set[i];
	}
	return oldest;
}

static uint8_t *get_bytes(struct vms_memory *memory, const struct cached_block *block)
{
	return &memory->bytes[(size_t)(block - memory->blocks) * memory->block_size];
}

static bool is_of_one_vcpu(const struct vms_memory *memory)
{
	return memory->vcpu != VMS_ALL_VCPUS;
}

bool vms_memory_pin(struct vms_memory *memory)
{
	return !is_of_one_vcpu(memory) || vms_machine_pin(memory->machine, (unsigned)memory->vcpu);
}

/* Copies a block into the cache if it was prefetched. False if it was not. */
static bool take_prefetched(struct vms_memory *memory, const struct cached_block *block)
{
	const void *content = NULL;
	if (is_of_one_vcpu(memory))
		content =
			vms_machine_prefetched(memory->machine, (unsigned)memory->vcpu, block->pa);
	if (content)
		memcpy(get_bytes(memory, block), content, memory->block_size);
	return content;
}

/*
 * Reads all blocks that were used in the last epoch. One sample of a machine reads much the same
 * memory as the one before. To read all of it at once takes a fraction of the time that it takes
 * block by block, and during that time the machine is held.
 */
static void read_ahead(struct vms_memory *memory, uint64_t epoch)
{
	struct vms_phys_part parts[USED_MAX];
	size_t n = 0;
	for (size_t i = 0; i < memory->used.n; i++) {
		struct cached_block *block = get_slot(memory, epoch, memory->used.pa[i]);
		if (block->epoch == epoch)
			continue; /* other blocks have all its places already */
		block->epoch = epoch;
		block->pa = memory->used.pa[i];
		if (!take_prefetched(memory, block))
			parts[n++] = (struct vms_phys_part) { block->pa, memory->block_size,
							      get_bytes(memory, block) };
	}
	size_t read = 0;
	if (n > 0 && vms_memory_pin(memory))
		read = vms_machine_read_parts(memory->machine, parts, n);
	for (size_t i = read; i < n; i++)
		get_slot(memory, epoch, parts[i].pa)->epoch = 0;
	memory->used.epoch = epoch;
	memory->used.n = 0;
}

/* Notes that a block was used in this epoch, for the next one to read it ahead. */
static void note_use(struct vms_memory *memory, struct cached_block *block)
{
	if (block->used != block->epoch && memory->used.n < USED_MAX) {
		memory->used.pa[memory->used.n++] = block->pa;
		if (is_of_one_vcpu(memory))
			vms_machine_prefetch(memory->machine, (unsigned)memory->vcpu, block->pa);
	}
	block->used = block->epoch;
}

/* The block at `pa`, read if need be; NULL if it cannot be read. */
static const struct cached_block *get_block(struct vms_memory *memory, uint64_t epoch, uint64_t pa)
{
	if (memory->used.epoch != epoch)
		read_ahead(memory, epoch);
	struct cached_block *block = get_slot(memory, epoch, pa);
	if (block->epoch != epoch || block->pa != pa) {
		block->epoch = block->used = 0;
		block->pa = pa;
		if (!vms_memory_pin(memory) ||
		    !vms_budget_step(memory->budget, VMS_STEPS_OF_READ) ||
		    !vms_machine_read_phys(memory->machine, pa, get_bytes(memory, block),
					   memory->block_size))
			return NULL;
		block->epoch = epoch;
	}
	note_use(memory, block);
	return block;
}

/* Reads through the cache: what is in it, and what was prefetched, needs no hold. */
static bool read_blocks(struct vms_memory *memory, uint64_t epoch, uint64_t pa, uint8_t *to,
			size_t size)
{
	while (size > 0) {
		const uint64_t offset = pa % memory->block_size;
		const size_t part = MIN(size, memory->block_size - offset);
		const struct cached_block *block = get_block(memory, epoch, pa - offset);
		if (!block)
			return false;
		memcpy(to, get_bytes(memory, block) + offset, part);
		pa += part;
		to += part;
		size -= part;
	}
	return true;
}

static bool read_phys(void *data, uint64_t pa, void *buf, size_t size)
{
	struct vms_memory *memory = data;
	if (!vms_budget_step(memory->budget, VMS_STEPS_OF_CACHED_READ + VMS_STEPS_OF_BYTES(size)))
		return false;
	const uint64_t epoch = vms_machine_epoch(memory->machine, memory->vcpu);
	if (epoch != 0 && size <= CACHED_BYTES && read_blocks(memory, epoch, pa, buf, size))
		return true;
	return (epoch == 0 || vms_memory_pin(memory)) &&
	       vms_budget_step(memory->budget, VMS_STEPS_OF_READ) &&
	       vms_machine_read_phys(memory->machine, pa, buf, size);
}

static struct vms_reader phys_reader(struct vms_memory *memory)
{
	return (struct vms_reader) { read_phys, memory };
}

struct vms_memory *vms_memory_new(struct vms_machine *machine, const struct vms_regs *regs)
{
	struct vms_memory *memory = g_new0(struct vms_memory, 1);
	memory->machine = vms_machine_ref(machine);
	memory->arch = vms_machine_arch(machine);
	vms_memory_set_vcpu(memory, VMS_ALL_VCPUS);
	vms_memory_set_regs(memory, regs);
	return memory;
}

void vms_memory_free(struct vms_memory *memory)
{
	if (!memory)
		return;
	vms_machine_unref(memory->machine);
	vms_budget_unref(memory->budget);
	g_free(memory);
}

void vms_memory_set_urgent(struct vms_memory *memory)
{
	memory->is_urgent = true;
}

bool vms_memory_is_urgent(const struct vms_memory *memory)
{
	return memory->is_urgent;
}

void vms_memory_set_vcpu(struct vms_memory *memory, int vcpu)
{
	const size_t alone = memory->machine->engine->read_parts ? CACHE_PART : CACHE_PAGE;
	memory->vcpu = vcpu;
	memory->block_size = vcpu == VMS_ALL_VCPUS ? alone : VMS_PREFETCH_SIZE;
	memset(memory->blocks, 0, sizeof(memory->blocks));
	memory->used.n = 0;
}

void vms_memory_set_regs(struct vms_memory *memory, const struct vms_regs *regs)
{
	struct vms_reader phys = phys_reader(memory);
	memory->regs = *regs;
	memory->arch->kernel_root(&memory->regs, &phys);
	for (size_t i = 0; i < CACHE_WALKS; i++)
		memory->walks[i].epoch = 0;
}

const struct vms_regs *vms_memory_regs(const struct vms_memory *memory)
{
	return &memory->regs;
}

void vms_memory_set_budget(struct vms_memory *memory, struct vms_budget *budget)
{
	if (budget)
		vms_budget_ref(budget);
	vms_budget_unref(memory->budget);
	memory->budget = budget;
}

struct vms_budget *vms_memory_budget(const struct vms_memory *memory)
{
	return memory->budget;
}

struct vms_machine *vms_memory_machine(struct vms_memory *memory)
{
	return memory->machine;
}

bool vms_memory_translate(struct vms_memory *memory, uint64_t va, struct vms_page *ret)
{
	struct vms_reader phys = phys_reader(memory);
	uint64_t epoch = vms_machine_epoch(memory->machine, memory->vcpu);
	struct cached_walk *walk = &memory->walks[va / CACHE_PAGE % CACHE_WALKS];
	if (epoch != 0 && walk->epoch == epoch && va - walk->page.va < walk->page.size) {
		*ret = walk->page;
		return true;
	}
	if (!memory->arch->translate(&memory->regs, &phys, va, ret))
		return false;
	walk->epoch = epoch;
	walk->page = *ret;
	return true;
}

void vms_memory_each_page(struct vms_memory *memory, uint64_t va, uint64_t last, uint64_t *steps,
			  bool (*each)(const struct vms_page *page, void *data), void *data)
{
	struct vms_reader phys = phys_reader(memory);
	memory->arch->each_page(&memory->regs, &phys, va, last, steps, each, data);
}

bool vms_memory_read(struct vms_memory *memory, uint64_t va, void *buf, size_t size)
{
	uint8_t *to = buf;
	while (size > 0) {
		struct vms_page page;
		if (!vms_memory_translate(memory, va, &page))
			return false;
		uint64_t offset = va - page.va;
		size_t part = MIN(size, page.size - offset);
		if (!read_phys(memory, page.pa + offset, to, part))
			return false;
		to += part;
		va += part;
		size -= part;
	}
	return true;
}

size_t vms_memory_read_start(struct vms_memory *memory, uint64_t va, void *buf, size_t size)
{
	struct vms_phys_part parts[START_BYTES / CACHE_PAGE + 1];
	struct vms_page page;
	size_t n = 0, done = 0;
	for (size = MIN(size, START_BYTES); done < size && n < G_N_ELEMENTS(parts); n++) {
		if (!vms_memory_translate(memory, va + done, &page))
			break;
		const uint64_t offset = va + done - page.va;
		/* Parts that lie in one page of the host: an engine may read no others. */
		const size_t left = CACHE_PAGE - (va + done) % CACHE_PAGE;
		parts[n] = (struct vms_phys_part) { page.pa + offset, MIN(size - done, left),
						    (uint8_t *)buf + done };
		done += parts[n].size;
	}
	if (n == 0 || !vms_memory_pin(memory))
		return 0;
	size_t read = vms_machine_read_parts(memory->machine, parts, n);
	while (read < n && vms_machine_read_phys(memory->machine, parts[read].pa, parts[read].buf,
						 parts[read].size))
		read++;
	return read ? (size_t)((uint8_t *)parts[read - 1].buf + parts[read - 1].size -
			       (uint8_t *)buf)
		    : 0;
}

/*
 * Finds the block of physical memory that `va` is in. False if that is not mapped. *part: bytes
 * from `va` on that are in the block.
 */
static bool find_block(struct vms_memory *memory, uint64_t va, uint64_t *pa, size_t *part)
{
	struct vms_page page;
	if (!vms_memory_translate(memory, va, &page))
		return false;
	*pa = page.pa + (va - page.va);
	*part = VMS_PREFETCH_SIZE - *pa % VMS_PREFETCH_SIZE;
	*pa -= *pa % VMS_PREFETCH_SIZE;
	return true;
}

bool vms_memory_read_prefetched(struct vms_memory *memory, uint64_t va, void *buf, size_t size)
{
	uint8_t *to = buf;
	uint64_t pa;
	size_t part;
	if (!is_of_one_vcpu(memory))
		return false;
	for (; size > 0; va += part, to += part, size -= part) {
		if (!find_block(memory, va, &pa, &part))
			return false;
		const uint8_t *block =
			vms_machine_prefetched(memory->machine, (unsigned)memory->vcpu, pa);
		if (!block)
			return false;
		const size_t skipped = VMS_PREFETCH_SIZE - part;
		part = MIN(part, size);
		memcpy(to, block + skipped, part);
	}
	return true;
}

void vms_memory_prefetch(struct vms_memory *memory, uint64_t va, size_t size)
{
	uint64_t pa;
	size_t part;
	if (!is_of_one_vcpu(memory))
		return;
	for (const uint64_t end = va + size; va < end; va += part)
		if (find_block(memory, va, &pa, &part))
			vms_machine_prefetch(memory->machine, (unsigned)memory->vcpu, pa);
		else
			part = VMS_PREFETCH_SIZE;
}

bool vms_memory_read_u64(struct vms_memory *memory, uint64_t va, uint64_t *ret)
{
	if (!vms_memory_read(memory, va, ret, sizeof(*ret)))
		return false;
	*ret = GUINT64_FROM_LE(*ret);
	return true;
}

bool vms_memory_read_u32(struct vms_memory *memory, uint64_t va, uint32_t *ret)
{
	if (!vms_memory_read(memory, va, ret, sizeof(*ret)))
		return false;
	*ret = GUINT32_FROM_LE(*ret);
	return true;
}

bool vms_memory_read_string(struct vms_memory *memory, uint64_t va, char *buf, size_t size)
{
	size_t length = 0;
	bool ended = false;
	while (!ended && length < size - 1) {
		/* One read does not cross a page: the next page may not be mapped. */
		size_t part = MIN(size - 1 - length, CACHE_PAGE - va % CACHE_PAGE);
		if (!vms_memory_read(memory, va, buf + length, part))
			break;
		size_t used = strnlen(buf + length, part);
		ended = used < part;
		length += used;
		va += part;
	}
	buf[length] = '\0';
	if (!vms_budget_step(memory->budget, VMS_STEPS_OF_CLEANING(length)))
		return false;
	vms_text_clean(buf);
	return ended || length > 0;
}

static bool read_virtual(void *data, uint64_t va, void *buf, size_t size)
{
	return vms_memory_read(data, va, buf, size);
}

struct vms_reader vms_memory_reader(struct vms_memory *memory)
{
	return (struct vms_reader) { read_virtual, memory };
}
