/* SPDX-License-Identifier: MIT */
/*
 * Callbacks for a trace in code that is being translated.
 *
 * What a callback has to know of its instruction lies in the pointer that QEMU hands it: there is
 * nothing to free when the code goes. A block's rank never changes, so it is found once. QEMU uses
 * a block again where the same memory is seen at another address: only what lies at one address
 * alone, as a kernel does, has an address that is known when it is translated.
 */
#pragma once

#include "branch.h"
#include "trace.h"

/* A block of code. */
struct block {
	struct qemu_plugin_tb *tb;
	struct trace *trace;
	uint64_t va;
	unsigned rank;
	uint16_t segment; /* x86 in real mode: what cs adds to addresses, / 16 */
};

/* An instruction of it. */
struct insn {
	struct qemu_plugin_insn *qemu;
	uint64_t va;
	size_t size;
	uint8_t bytes[16];
	struct branch branch;
};

/* A function or another address, and a rank. */
struct place {
	uint64_t va;
	unsigned rank;
};

/* Where an instruction lies, for blocks that may be seen at several addresses. */
struct site {
	int32_t displacement; /* of the target from the block's begin */
	uint32_t rank : 2;
	uint32_t begin : 12;  /* the block's, in its page */
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

/* Where the direct branch goes to, in the block as it is seen now. */
static inline uint64_t insn_target(const struct insn *insn)
{
	return insn->va + insn->size + (uint64_t)insn->branch.displacement;
}

/* False: it is too far. */
bool site_pack(const struct block *block, const struct insn *insn, void **data);
/* The target, as the program counter of the block, or of the instruction, tells. */
uint64_t site_target(const struct site *site, uint64_t pc);

static inline struct site site_unpack(void *data)
{
	union {
		void *data;
		struct site site;
	} packed = { .data = data };
	return packed.site;
}

/* Does the client know all functions there? */
bool block_covers(const struct block *block, uint64_t va);
/* Flags of the function that begins there, 0 if none does. */
unsigned block_function_flags(const struct block *block, uint64_t va);

/* What processors have in common: a direct jump, one through a register, a loaded stack pointer. */
void instrument_jump(const struct block *block, const struct insn *insn);
void instrument_jump_register(const struct block *block, const struct insn *insn);
void instrument_stack_load(const struct block *block, const struct insn *insn);

/* The block may be executed as a machine begins, and only then if it is `surely`. */
void instrument_begin(const struct block *block, bool surely);

/* Puts callbacks into the block; in whichever it is. */
void instrument_x86(struct block *block);
void instrument_aarch64(struct block *block);
/* Calls `each` with the instructions of the block that matter. */
void instrument_insns(const struct block *block,
		      struct branch (*decode)(const uint8_t *bytes, size_t size),
		      void (*each)(const struct block *block, const struct insn *insn));
