/* SPDX-License-Identifier: MIT */
/*
 * What happens where a vCPU comes to a place: the programs of all sets there are run. A place whose
 * programs are to run after the instruction is noted, and looked at where the vCPU executes next.
 */
#pragma once

#include "agent/probes/plan.h"
#include "agent/qemu/vcpu.h"

/* A vCPU's last instruction that has places after it. Only for the vCPU's own thread. */
struct pending {
	uint64_t va;   /* of the instruction */
	uint64_t next; /* of the one behind it */
	uint64_t sp;   /* before it */
	bool traps;    /* it exists to enter an exception */
	bool repeats;  /* it goes on at itself until it is complete */
};

/* How an instruction has ended, and the registers of the vCPU then where others are there now. */
struct outcome {
	enum { EXECUTED, NOT_EXECUTED } end;
	unsigned n;
	struct {
		unsigned reg;
		uint64_t value;
	} regs[5];
};

/* The current plan; NULL: none. It changes only while no vCPU is in guest code. */
extern struct plan *_Atomic visit_plan;
/* Not 0: the vCPU has a pending place. */
extern qemu_plugin_u64 visit_pending;

/* Called once. `ended` is called in the thread of a vCPU whose hit has ended a set. */
bool visit_init(void (*ended)(void));
/* Waits until no vCPU uses a set that was taken out of the plan. */
void visit_wait(void);
/* A vCPU begins: it has executed nothing. */
void visit_begin_vcpu(unsigned vcpu);

/* A vCPU comes to an instruction of this address, in a callback before it. */
void visit_before(unsigned vcpu, const struct pending *insn);
/* A vCPU with a pending place executes the instruction behind it, in the same block. */
void visit_after(unsigned vcpu);
/* A vCPU with a pending place begins a block at `pc`. */
void visit_block(unsigned vcpu, uint64_t pc);
/* A vCPU begins a block at `pc`, to which it may have returned (return_marks.h). */
void visit_return(unsigned vcpu, uint64_t pc);

/* Adds a register of which a program gets this value, and not what the vCPU has now. */
void outcome_add(struct outcome *outcome, unsigned reg, uint64_t value);
/* Tells what has become of an instruction after which the vCPU goes on at `pc`, not behind it. */
struct outcome outcome_of(struct vcpu *vcpu, const struct pending *pending, uint64_t pc);
