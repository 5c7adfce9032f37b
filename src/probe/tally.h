/* SPDX-License-Identifier: MIT */
/*
 * A tally aggregates hits by key, in memory of a fixed size. One thread adds hits. Other threads,
 * also of another process, may read at the same time. Like program.h, this needs only the C
 * library.
 *
 * The output of a program for a tally begins with the numbers to add up, each a value of 8 bytes at
 * most. All values behind them are the key, as bytes with their heads.
 *
 * The memory has a head and an array of entries. Entries are only added. An entry has a count, a
 * struct vms_tally_sum for each number, the cells of the histograms, and the key. A reader must not
 * trust the memory: all sizes follow from the shape, which both sides know.
 */
#pragma once

#include "probe/program.h"
#include <stdatomic.h>

#define VMS_TALLY_NUMBERS_MAX 8u
#define VMS_TALLY_ENTRIES_MAX (UINT32_C(1) << 20)
#define VMS_TALLY_STEPS_MAX   1024u	  /* cells of a linear histogram, except the outer two */
#define VMS_TALLY_SIZE_MAX    (64u << 20) /* bytes of one tally */
#define VMS_TALLY_LOG2_CELLS  65u

enum vms_tally_kind {
	VMS_TALLY_PLAIN, /* no histogram */
	/*
	 * 65 cells. Unsigned: one for 0, then for [1, 2), [2, 4) … up to 2^64. Signed: one for all
	 * negative numbers, one for 0, then the same up to 2^63.
	 */
	VMS_TALLY_LOG2,
	/*
	 * A cell for all below `first`; `n_steps` cells of `step` numbers each; one for all above.
	 */
	VMS_TALLY_LINEAR,
};

/* How one number is aggregated. */
struct vms_tally_number {
	uint32_t kind;	    /* enum vms_tally_kind */
	uint32_t is_signed; /* 0 or 1 */
	uint64_t first;	    /* LINEAR; signed if the number is */
	uint64_t step;	    /* LINEAR: at least 1 */
	uint32_t n_steps;   /* LINEAR: 1 to VMS_TALLY_STEPS_MAX */
	uint32_t reserved;
};

/* The shape of a tally. Plain data, which a client sends to the agent. */
struct vms_tally_shape {
	uint32_t n_entries; /* maximum number of keys, VMS_TALLY_ENTRIES_MAX at most */
	uint32_t key_size;  /* bytes of the longest key, VMS_PROGRAM_OUTPUT_MAX at most; may be 0 */
	uint32_t n_numbers;
	uint32_t reserved;
	struct vms_tally_number numbers[VMS_TALLY_NUMBERS_MAX];
};

/* The layout of a tally, which follows from its shape. Offsets are in an entry. */
struct vms_tally_layout {
	uint32_t n_cells[VMS_TALLY_NUMBERS_MAX];
	size_t cells_at[VMS_TALLY_NUMBERS_MAX]; /* of uint64_t */
	size_t key_at;
	size_t entry_size;
	size_t size; /* bytes of the memory, whole pages of 4096 */
};

struct vms_tally_head {
	_Atomic uint64_t n;	/* entries that are complete */
	_Atomic uint64_t unfit; /* hits that were lost because there was no room for their key */
};

struct vms_tally_sum {
	uint64_t sum; /* modulo 2^64 */
	uint64_t min, max;
};

struct vms_tally_entry {
	_Atomic uint32_t sequence; /* odd while the entry is being changed */
	uint32_t key_size;
	uint64_t count;
	struct vms_tally_sum sums[]; /* by number */
};

/* The writer's side of a tally. Only `head` and `entries` are in shared memory. */
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
 * Checks a shape and computes its layout. False if the shape is invalid, or a tally would have more
 * than VMS_TALLY_SIZE_MAX bytes.
 */
bool vms_tally_lay_out(const struct vms_tally_shape *shape, struct vms_tally_layout *ret);
/*
 * Makes an empty tally in `memory`, which has layout->size bytes of 0, is aligned like uint64_t and
 * must outlive the tally. False if there is no memory for its index.
 */
bool vms_tally_init(struct vms_tally *tally, const struct vms_tally_shape *shape, void *memory);
/* Frees the index. The memory stays. */
void vms_tally_clear(struct vms_tally *tally);

/*
 * Gets the numbers from a program's output, and sets *key_at to the offset of the key. False if a
 * number is not known.
 */
bool vms_tally_split(const struct vms_tally_shape *shape, const uint8_t *output, size_t size,
		     uint64_t numbers[VMS_TALLY_NUMBERS_MAX], size_t *key_at);
/* Adds a hit to the entry of its key. If there is no room for the key, counts the hit as unfit. */
void vms_tally_add(struct vms_tally *tally, const uint64_t numbers[], const uint8_t *key,
		   size_t key_size);

/* Returns the index of the histogram's cell for a number. */
uint32_t vms_tally_cell(const struct vms_tally_number *number, uint64_t value);

/* Returns how many entries can be read from the memory of a tally. */
uint32_t vms_tally_length(const struct vms_tally_shape *shape, const void *memory);
/*
 * Copies an entry. `index` is below vms_tally_length. `copy` has layout->entry_size bytes and is
 * aligned like uint64_t. While the entry is being changed, copies it again, and decrements
 * *patience each time until it is 0. So the copy is consistent, unless the writer was killed during
 * a change: then it may have a part of the last hit. False if the entry is invalid.
 */
bool vms_tally_read(const struct vms_tally_shape *shape, const struct vms_tally_layout *layout,
		    const void *memory, uint32_t index, uint32_t *patience,
		    struct vms_tally_entry *copy);
