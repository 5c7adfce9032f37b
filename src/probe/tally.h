/* SPDX-License-Identifier: MIT */
/*
 * A tally adds up hits by key, in memory of a fixed size: what a probe's program collects is not
 * kept, but counted. One thread adds, any other may read at the same time, also in another process.
 * Like program.h, this needs no more than the C library.
 *
 * The output of a program that is tallied begins with the numbers to add up, each a value of 8
 * bytes at most. All values behind them are the key, byte by byte with their heads.
 *
 * The memory is a head and a row of entries, which are only added. An entry has a count, a struct
 * vms_tally_sum for each number, the cells of their histograms, and its key. A reader must not
 * trust it: sizes follow from the shape, which is known to both.
 */
#pragma once

#include "probe/program.h"
#include <stdatomic.h>

#define VMS_TALLY_NUMBERS_MAX 8u
#define VMS_TALLY_ENTRIES_MAX (UINT32_C(1) << 20)
#define VMS_TALLY_STEPS_MAX   1024u	  /* cells of a linear histogram, without the outer two */
#define VMS_TALLY_SIZE_MAX    (64u << 20) /* bytes of one tally */
#define VMS_TALLY_LOG2_CELLS  65u

enum vms_tally_kind {
	VMS_TALLY_PLAIN, /* no histogram */
	/*
	 * 65 cells. Unsigned: 0, then [1, 2), [2, 4) … up to 2^64. Signed: all below 0, 0, then the
	 * same up to 2^63.
	 */
	VMS_TALLY_LOG2,
	/* Below `first`; `n_steps` cells, each for `step` numbers; all above these. */
	VMS_TALLY_LINEAR,
};

/* What is made of one number. */
struct vms_tally_number {
	uint32_t kind;	    /* enum vms_tally_kind */
	uint32_t is_signed; /* 0 or 1 */
	uint64_t first;	    /* LINEAR; with a sign if the number has one */
	uint64_t step;	    /* LINEAR: from 1 */
	uint32_t n_steps;   /* LINEAR: 1 to VMS_TALLY_STEPS_MAX */
	uint32_t reserved;
};

/* Plain data, which a client sends to the agent. */
struct vms_tally_shape {
	uint32_t n_entries; /* keys that a tally has room for, VMS_TALLY_ENTRIES_MAX at most */
	uint32_t key_size;  /* bytes of the longest key, VMS_PROGRAM_OUTPUT_MAX at most; may be 0 */
	uint32_t n_numbers;
	uint32_t reserved;
	struct vms_tally_number numbers[VMS_TALLY_NUMBERS_MAX];
};

/* Where everything is: follows from a shape. Offsets in an entry. */
struct vms_tally_layout {
	uint32_t n_cells[VMS_TALLY_NUMBERS_MAX];
	size_t cells_at[VMS_TALLY_NUMBERS_MAX]; /* of uint64_t */
	size_t key_at;
	size_t entry_size;
	size_t size; /* bytes of the memory, whole pages of 4096 */
};

struct vms_tally_head {
	_Atomic uint64_t n;	/* entries that are complete */
	_Atomic uint64_t unfit; /* hits that found no room for their key */
};

struct vms_tally_sum {
	uint64_t sum; /* goes on from 0 beyond 2^64 */
	uint64_t min, max;
};

struct vms_tally_entry {
	_Atomic uint32_t sequence; /* odd: it is being changed */
	uint32_t key_size;
	uint64_t count;
	struct vms_tally_sum sums[]; /* by number */
};

/* One who adds. Only `head` and `entries` may be shared with anybody. */
struct vms_tally {
	struct vms_tally_shape shape;
	struct vms_tally_layout layout;
	struct vms_tally_head *head; /* NULL: it has no memory */
	uint8_t *entries;
	struct vms_tally_slot *index; /* hash table of `mask + 1` */
	uint32_t mask;
	uint32_t n;
	uint64_t unfit;
};

/*
 * Checks a shape and lays it out. False: it is not possible, or one tally would have more than
 * VMS_TALLY_SIZE_MAX bytes.
 */
bool vms_tally_lay_out(const struct vms_tally_shape *shape, struct vms_tally_layout *ret);
/*
 * Makes an empty tally in `memory`, which has layout->size bytes of 0, is aligned like uint64_t and
 * outlives it. False: no memory for its index.
 */
bool vms_tally_init(struct vms_tally *tally, const struct vms_tally_shape *shape, void *memory);
/* Frees the index. The memory stays. */
void vms_tally_clear(struct vms_tally *tally);

/*
 * Takes the numbers out of a program's output. False: one of them is not known. *key_at becomes
 * where the key begins.
 */
bool vms_tally_split(const struct vms_tally_shape *shape, const uint8_t *output, size_t size,
		     uint64_t numbers[VMS_TALLY_NUMBERS_MAX], size_t *key_at);
/* Adds a hit to the entry of its key, or to the unfit ones if there is no room for the key. */
void vms_tally_add(struct vms_tally *tally, const uint64_t numbers[], const uint8_t *key,
		   size_t key_size);

/* Returns the cell of a histogram that a number falls into. */
uint32_t vms_tally_cell(const struct vms_tally_number *number, uint64_t value);

/* Returns how many entries can be read from the memory of a tally. */
uint32_t vms_tally_length(const struct vms_tally_shape *shape, const void *memory);
/*
 * Copies an entry below that length into `copy`, which has layout->entry_size bytes and is aligned
 * like uint64_t. While the entry is being changed it tries again, *patience times in all; that is
 * counted down. So the copy is of one moment, unless who adds was killed while he did: then the
 * last hit may be in a part of it. False: it is no entry.
 */
bool vms_tally_read(const struct vms_tally_shape *shape, const struct vms_tally_layout *layout,
		    const void *memory, uint32_t index, uint32_t *patience,
		    struct vms_tally_entry *copy);
