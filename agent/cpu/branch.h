/* SPDX-License-Identifier: MIT */
/*
 * Decodes what an instruction does to the control flow, by its bytes. QEMU knows how many bytes it
 * has. This number is enough to tell 16, 32 and 64-bit x86 code apart here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum branch_kind {
	BRANCH_NONE,
	BRANCH_CALL,
	BRANCH_CALL_REGISTER,
	BRANCH_CALL_MEMORY,
	BRANCH_RETURN,
	BRANCH_JUMP,
	BRANCH_JUMP_CONDITIONAL,
	BRANCH_JUMP_REGISTER,
	BRANCH_JUMP_MEMORY,
	BRANCH_FAR,		 /* x86: a call, jump or return that loads cs */
	BRANCH_EXCEPTION_RETURN, /* iret, sysret, sysexit; eret */
	BRANCH_STACK_LOAD, /* sets the stack pointer from neither itself nor the frame pointer */
	BRANCH_REPEAT,	   /* x86: a string instruction with rep */
};

struct branch {
	enum branch_kind kind;
	/* The number of the register that has the target. */
	uint8_t reg;
	/* CALL_MEMORY, JUMP_MEMORY: the operand's address depends on no register but pc. */
	bool fixed;
	int64_t displacement; /* direct branches: from the next instruction to the target */
};

struct branch branch_x86(const uint8_t *bytes, size_t size);
struct branch branch_aarch64(const uint8_t *bytes, size_t size);
