/* SPDX-License-Identifier: MIT */
/*
 * Runs the programs of all sets when a vCPU visits a place. If programs must run after the
 * instruction, the place is noted as pending, and they run where the vCPU continues.
 */
#pragma once

#include "agent/probes/plan.h"
#include "agent/qemu/vcpu.h"

/* A vCPU's last instruction that has places after it. Only for the vCPU's own thread. */
struct pending {
	uint64_t va;   /* of the instruction */
	uint64_t next; /* of the one behind it */
	uint64_t sp;   /* before it */
	bool traps;    /* its purpose is to enter an exception */
	bool repeats;  /* it is executed again until it is complete (x86 rep) */
};

/* How an instruction ended, and those registers at its end that have other values now. */
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
/* Waits until no vCPU uses a set that was removed from the plan. */
void visit_wait(void);
/* Prepares a vCPU that begins and has executed nothing. */
void visit_begin_vcpu(unsigned vcpu);

/* A vCPU is about to execute this instruction. Called in a callback before it. */
void visit_before(unsigned vcpu, const struct pending *insn);
/* A vCPU with a pending place executes the instruction behind it, in the same block. */
void visit_after(unsigned vcpu);
/* A vCPU with a pending place begins a block at `pc`. */
void visit_block(unsigned vcpu, uint64_t pc);
/* A vCPU begins a block at `pc`, to which it may have returned (return_marks.h). */
void visit_return(unsigned vcpu, uint64_t pc);

/* Adds a register whose value for programs is this one, and not the vCPU's current one. */
void outcome_add(struct outcome *outcome, unsigned reg, uint64_t value);
/* Finds out how an instruction ended after which the vCPU continues at `pc`, not behind it. */
struct outcome outcome_of(struct vcpu *vcpu, const struct pending *pending, uint64_t pc);
