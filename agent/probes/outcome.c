/* SPDX-License-Identifier: MIT */
/*
 * Finds out what happened to an instruction if the vCPU does not continue at the next one: the
 * instruction branched, or it was executed and an interrupt followed, or it faulted. QEMU does not
 * report this. The state that the processor saves when it enters a handler shows it.
 */
#include "agent/probes/visit.h"

#include <string.h>

/* ---- x86-64 -------------------------------------------------------------------------- */

/* What the processor pushes in 64-bit mode. An error code may follow below it. */
struct x86_frame {
	uint64_t rip, cs, rflags, rsp, ss;
};

#define RFLAGS_ALWAYS 2U /* a bit that is always set */
#define RFLAGS_BITS   22
#define MAX_SELECTOR  0xffff

static bool is_frame(const struct x86_frame *frame)
{
	return frame->cs > 0 && frame->cs <= MAX_SELECTOR && frame->ss <= MAX_SELECTOR &&
	       frame->rflags & RFLAGS_ALWAYS && frame->rflags >> RFLAGS_BITS == 0;
}

/* True if a branch can have changed the stack pointer `sp` to that of the frame. */
static bool has_stack_of_branch(const struct x86_frame *frame, uint64_t sp)
{
	return frame->rsp + sizeof(uint64_t) - sp <= 2 * sizeof(uint64_t);
}

static struct outcome outcome_of_frame(const struct x86_frame *frame)
{
	struct outcome outcome = { .end = EXECUTED };
	outcome_add(&outcome, X86_RIP, frame->rip);
	outcome_add(&outcome, X86_RSP, frame->rsp);
	outcome_add(&outcome, X86_EFLAGS, frame->rflags);
	outcome_add(&outcome, X86_CS, frame->cs);
	outcome_add(&outcome, X86_SS, frame->ss);
	return outcome;
}

static struct outcome outcome_x86(struct vcpu *vcpu, const struct pending *pending)
{
	uint64_t sp, words[6];
	struct x86_frame frames[2]; /* without and with an error code below it */
	vcpu_read(vcpu, X86_RSP, &sp);
	if (!vcpu_read_memory(vcpu, sp, words, sizeof(words)))
		return (struct outcome) { .end = EXECUTED };
	for (unsigned i = 0; i < 2; i++) {
		const struct x86_frame *frame = &frames[i];
		memcpy(&frames[i], words + i, sizeof(*frame));
		if (!is_frame(frame))
			continue;
		if (frame->rip == pending->va && frame->rsp == pending->sp)
			return (struct outcome) { .end = NOT_EXECUTED };
		if (!pending->traps &&
		    (frame->rip == pending->next || has_stack_of_branch(frame, pending->sp)))
			return outcome_of_frame(frame);
	}
	return (struct outcome) { .end = EXECUTED };
}

/* ---- aarch64 ------------------------------------------------------------------------- */

#define VECTORS_SIZE 0x800
#define VECTOR_SIZE  0x80
#define SPSR_EL	     (3U << 2)

static bool is_vector(struct vcpu *vcpu, uint64_t pc)
{
	uint64_t vectors;
	return vcpu_read(vcpu, A64_VBAR_EL1, &vectors) && pc - vectors < VECTORS_SIZE &&
	       pc % VECTOR_SIZE == 0;
}

static struct outcome outcome_aarch64(struct vcpu *vcpu, const struct pending *pending, uint64_t pc)
{
	struct outcome outcome = { .end = EXECUTED };
	uint64_t elr, spsr, sp;
	if (!is_vector(vcpu, pc) || !vcpu_read(vcpu, A64_ELR_EL1, &elr) ||
	    !vcpu_read(vcpu, A64_SPSR_EL1, &spsr))
		return outcome;
	if (elr == pending->va)
		outcome.end = NOT_EXECUTED;
	if (elr == pending->va || pending->traps)
		return outcome;
	outcome_add(&outcome, A64_PC, elr);
	outcome_add(&outcome, A64_CPSR, spsr);
	if (!(spsr & SPSR_EL) && vcpu_read(vcpu, A64_SP_EL0, &sp))
		outcome_add(&outcome, A64_SP, sp);
	return outcome;
}

struct outcome outcome_of(struct vcpu *vcpu, const struct pending *pending, uint64_t pc)
{
	return vcpu_arch() == &arch_aarch64 ? outcome_aarch64(vcpu, pending, pc)
					    : outcome_x86(vcpu, pending);
}
