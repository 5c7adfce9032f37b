/* SPDX-License-Identifier: MIT */
#include "agent/coverage/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How many blocks get memory in one step. */
#define CHUNK 4096U

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t compute_marks_size(const struct blocks *blocks, uint32_t n)
{
	return vms_agent_mark_offset((uint32_t)round_up(n, VMS_AGENT_BLOCKS_PER_LINE), 0,
				     blocks->n_vcpus, 0);
}

/* Allocates memory now. Otherwise a later write would kill QEMU if the host had no memory left. */
static bool allocate_file_range(const struct blocks *blocks, uint64_t offset, uint64_t size)
{
	errno = posix_fallocate(blocks->memfd, (off_t)offset, (off_t)size);
	return errno == 0;
}

/* Allocates the memory of a block, and of the next CHUNK blocks. */
static bool reserve_block(struct blocks *blocks, uint32_t block)
{
	if (block < blocks->n_reserved)
		return true;
	const uint32_t n = blocks->max - block < CHUNK ? blocks->max - block : CHUNK;
	const uint64_t marks = compute_marks_size(blocks, block);
	const uint64_t description = sizeof(struct vms_agent_block_covered);
	if (!allocate_file_range(blocks, blocks->blocks_offset + block * description,
				 n * description) ||
	    !allocate_file_range(blocks, blocks->marks_offset + marks,
				 compute_marks_size(blocks, block + n) - marks))
		return false;
	blocks->n_reserved = block + n;
	return true;
}

static bool share_memory(struct blocks *blocks)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	blocks->blocks_offset = round_up(sizeof(*blocks->shared), page);
	blocks->marks_offset =
		round_up(blocks->blocks_offset +
				 (uint64_t)blocks->max * sizeof(struct vms_agent_block_covered),
			 page);
	blocks->size = blocks->marks_offset + compute_marks_size(blocks, blocks->max);
	blocks->memfd = memfd_create("vmscope-coverage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (blocks->memfd < 0 || ftruncate(blocks->memfd, (off_t)blocks->size) < 0 ||
	    fcntl(blocks->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
	    !allocate_file_range(blocks, 0, blocks->blocks_offset))
		return false;
	void *memory = mmap(NULL, blocks->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			    blocks->memfd, 0);
	if (memory == MAP_FAILED)
		return false;
	blocks->shared = memory;
	blocks->shared->blocks_offset = blocks->blocks_offset;
	blocks->shared->marks_offset = blocks->marks_offset;
	blocks->shared->max_blocks = blocks->max;
	blocks->shared->n_vcpus = blocks->n_vcpus;
	return true;
}

bool blocks_make(struct blocks *blocks, uint32_t max, uint32_t n_vcpus)
{
	unsigned bits = 1;
	while (bits < 31 && UINT32_C(1) << bits < 2 * max)
		bits++;
	*blocks = (struct blocks) {
		.memfd = -1,
		.max = max,
		.n_vcpus = n_vcpus,
		.shift = 64 - bits,
		.keys = calloc(max, sizeof(*blocks->keys)),
		.index = calloc(UINT32_C(1) << bits, sizeof(*blocks->index)),
	};
	return blocks->keys && blocks->index && share_memory(blocks);
}

/* ---- numbers ---------------------------------------------------------------------- */

/* Returns where the number of a key is in the index, or where it would be. */
static uint32_t *find_slot(const struct blocks *blocks, const struct block_key *key)
{
	const uint32_t mask = (uint32_t)((UINT64_C(1) << (64 - blocks->shift)) - 1);
	const uint64_t hash = (key->va ^ (uint64_t)key->size << 48 ^ (uint64_t)key->epoch << 40) *
			      UINT64_C(0x9e3779b97f4a7c15);
	uint32_t at = (uint32_t)(hash >> blocks->shift);
	while (blocks->index[at] &&
	       memcmp(&blocks->keys[blocks->index[at] - 1], key, sizeof(*key)) != 0)
		at = (at + 1) & mask;
	return &blocks->index[at];
}

static struct vms_agent_block_covered *get_descriptions(const struct blocks *blocks)
{
	return (void *)((unsigned char *)blocks->shared + blocks->blocks_offset);
}

uint32_t blocks_note(struct blocks *blocks, const struct vms_agent_block_covered *block)
{
	const struct block_key key = { block->va, block->size, block->epoch };
	uint32_t *slot = find_slot(blocks, &key);
	if (*slot)
		return *slot - 1;
	blocks->is_full |= blocks->n == blocks->max || !reserve_block(blocks, blocks->n);
	if (blocks->is_full) {
		atomic_fetch_add(&blocks->shared->lost, 1);
		return BLOCKS_NONE;
	}
	blocks->keys[blocks->n] = key;
	get_descriptions(blocks)[blocks->n] = *block;
	*slot = ++blocks->n;
	atomic_store_explicit(&blocks->shared->n_blocks, blocks->n, memory_order_release);
	return blocks->n - 1;
}

/* ---- marks ------------------------------------------------------------------------ */

static unsigned char *get_marks(const struct blocks *blocks)
{
	return (unsigned char *)blocks->shared + blocks->marks_offset;
}

void *blocks_mark(const struct blocks *blocks, uint32_t block, unsigned end)
{
	return get_marks(blocks) + vms_agent_mark_offset(block, 0, blocks->n_vcpus, end);
}

unsigned blocks_ran(const struct blocks *blocks, uint32_t block)
{
	return vms_agent_marks_ran(get_marks(blocks), block, blocks->n_vcpus);
}

void blocks_clear(struct blocks *blocks)
{
	memset(get_marks(blocks), 0, compute_marks_size(blocks, blocks->n));
}

void blocks_settle(struct blocks *blocks)
{
	for (uint32_t i = 0; i < blocks->n; i++)
		atomic_store_explicit(&get_descriptions(blocks)[i].ran,
				      (uint8_t)blocks_ran(blocks, i), memory_order_relaxed);
}

void blocks_free(struct blocks *blocks)
{
	if (blocks->shared)
		munmap(blocks->shared, blocks->size);
	if (blocks->memfd >= 0)
		close(blocks->memfd);
	free(blocks->keys);
	free(blocks->index);
}
