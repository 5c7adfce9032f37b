/* SPDX-License-Identifier: MIT */
/*
 * The blocks of one coverage, in memory that is shared with its client (struct vms_agent_covered).
 * What the client writes there is not trusted: the agent keeps addresses and counts of its own.
 *
 * Only the owner's lock protects all this. Marks are set by translated code, which knows no lock.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

#define BLOCKS_NONE UINT32_MAX

/* What makes a block the same one when it is translated again. */
struct block_key {
	uint64_t va;
	uint32_t size;
	uint32_t epoch;
};

struct blocks {
	struct vms_agent_covered *shared;
	size_t size; /* bytes of it */
	int memfd;
	/* As in the shared memory, where the client may change them. */
	uint64_t blocks_offset, marks_offset;
	uint32_t n, max, n_vcpus;
	uint32_t n_reserved; /* blocks whose memory is allocated */
	bool is_full;	     /* the host had no memory for more */
	struct block_key *keys;
	uint32_t *index; /* hash of the key → number + 1, or 0 */
	unsigned shift;	 /* of the hash */
};

/* Makes room for blocks. blocks_free must be called even if this fails. False: errno tells. */
bool blocks_make(struct blocks *blocks, uint32_t max, uint32_t n_vcpus);
/*
 * Returns the number of a block, which it may have had before. BLOCKS_NONE: there is no room, which
 * the client is told.
 */
uint32_t blocks_note(struct blocks *blocks, const struct vms_agent_block_covered *block);
/* Returns where the mark of vCPU 0 lies. `end`: see vms_agent_mark_offset. */
void *blocks_mark(const struct blocks *blocks, uint32_t block, unsigned end);
/* Returns what a block's marks tell, of enum vms_agent_ran. */
unsigned blocks_ran(const struct blocks *blocks, uint32_t block);
/* Clears all marks. */
void blocks_clear(struct blocks *blocks);
/* Writes what the marks tell into the descriptions: later ones do not count. */
void blocks_settle(struct blocks *blocks);
/* No translated code uses the marks. */
void blocks_free(struct blocks *blocks);
