/* SPDX-License-Identifier: MIT */
/*
 * Adds the callbacks of a trace to code that is being translated.
 *
 * The pointer that QEMU passes to a callback contains all that the callback needs of its
 * instruction. So nothing must be freed when QEMU drops the code. The rank of a block never
 * changes, so it is found once. QEMU reuses a block if the same memory is executed at another
 * virtual address. So the address is known at translation only for code that has one address, like
 * a kernel.
 */
#pragma once

#include "agent/calls/trace.h"
#include "agent/cpu/branch.h"

/* A block of code that is being translated. */
struct block {
	struct qemu_plugin_tb *tb;
	struct trace *trace;
	uint64_t va;
	unsigned rank;
	unsigned flags;	  /* of the function that begins at `va`; 0: there is none */
	uint16_t segment; /* x86 in real mode: what cs adds to addresses, / 16 */
};

/* An instruction of a block. */
struct insn {
	struct qemu_plugin_insn *qemu;
	uint64_t va;
	size_t size;
	uint8_t bytes[16];
	struct branch branch;
};

/* An address, or the number of a register, and a rank. */
struct place {
	uint64_t va;
	unsigned rank;
};

/* The position of an instruction in a block that may be executed at several addresses. */
struct site {
	int32_t displacement; /* of the target from the block's begin */
	uint32_t rank : 2;
	uint32_t begin : 12;  /* of the block in its page */
	uint32_t offset : 13; /* of the instruction in its block */
};

static inline void *place_pack(uint64_t va, unsigned rank)
{
	return (void *)(uintptr_t)(va << 2 | rank);
}

static inline struct place place_unpack(const void *data)
{
	uint64_t packed = (uintptr_t)data;
	return (struct place) { (uint64_t)((int64_t)packed >> 2), packed & 3 };
}

/* Returns the target of a direct branch, for the address of this translation. */
static inline uint64_t insn_target(const struct insn *insn)
{
	return insn->va + insn->size + (uint64_t)insn->branch.displacement;
}

/* Packs an instruction into the user data of a callback. False if its target is too far away. */
bool site_pack(const struct block *block, const struct insn *insn, void **data);
/* Returns the target. `pc` is that of the block or of the instruction. */
uint64_t site_target(const struct site *site, uint64_t pc);

static inline struct site site_unpack(void *data)
{
	union {
		void *data;
		struct site site;
	} packed = { .data = data };
	return packed.site;
}

/* Instruments a block if there is a trace. Called in the callback of translation. */
void instrument_block(struct qemu_plugin_tb *tb);

/* True if the client knows all functions around this address. */
bool block_covers(const struct block *block, uint64_t va);

/* For all processors: direct jumps, jumps through a register, stack loads. */
void instrument_jump(const struct block *block, const struct insn *insn);
void instrument_jump_register(const struct block *block, const struct insn *insn);
void instrument_stack_load(const struct block *block, const struct insn *insn);

/* Adds a callback to a block that the machine may execute when it starts; `surely`: only then. */
void instrument_begin(const struct block *block, bool surely);

/* Put callbacks into the block, by processor. */
void instrument_x86(struct block *block);
void instrument_aarch64(struct block *block);
/* Calls `each` with the instructions of the block that matter. */
void instrument_insns(const struct block *block,
		      struct branch (*decode)(const uint8_t *bytes, size_t size),
		      void (*each)(const struct block *block, const struct insn *insn));
