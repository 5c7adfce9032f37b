/* SPDX-License-Identifier: MIT */
/*
 * The blocks of one coverage, in memory that is shared with its client (struct vms_agent_covered).
 * What the client writes there is not trusted: the agent has its own copies of addresses and
 * counts.
 *
 * The caller's lock protects all this, except marks: translated code sets them without a lock.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

#define BLOCKS_NONE UINT32_MAX

/* Identifies a block that is translated again. */
struct block_key {
	uint64_t va;
	uint32_t size;
	uint32_t epoch;
};

struct blocks {
	struct vms_agent_covered *shared;
	size_t size; /* bytes of it */
	int memfd;
	/* Copies of values in the shared memory, which the client may change there. */
	uint64_t blocks_offset, marks_offset;
	uint32_t n, max, n_vcpus;
	uint32_t n_reserved; /* blocks whose memory is allocated */
	bool is_full;	     /* the host had no memory for more */
	struct block_key *keys;
	uint32_t *index; /* hash of the key → number + 1, or 0 */
	unsigned shift;	 /* of the hash */
};

/* Makes room for blocks. blocks_free must be called even if this fails. False with errno set. */
bool blocks_make(struct blocks *blocks, uint32_t max, uint32_t n_vcpus);
/*
 * Returns the number of a block, and adds the block if it is new. BLOCKS_NONE if there is no room:
 * then the block is counted as lost for the client.
 */
uint32_t blocks_note(struct blocks *blocks, const struct vms_agent_block_covered *block);
/* Returns the address of vCPU 0's mark. `end`: see vms_agent_mark_offset. */
void *blocks_mark(const struct blocks *blocks, uint32_t block, unsigned end);
/* Returns which parts of a block have run, by its marks (enum vms_agent_ran). */
unsigned blocks_ran(const struct blocks *blocks, uint32_t block);
/* Clears all marks. */
void blocks_clear(struct blocks *blocks);
/* Copies the results of the marks into the descriptions. Later marks do not count. */
void blocks_settle(struct blocks *blocks);
/* Frees the blocks. No translated code may use their marks any more. */
void blocks_free(struct blocks *blocks);
