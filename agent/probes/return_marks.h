/* SPDX-License-Identifier: MIT */
/*
 * Where vCPUs may return to out of calls that are followed. Code behind a call begins a block, and
 * a block looks at a mark of its vCPU before it is executed: one of MARKS, chosen by where in its
 * page the block lies. So code need not be translated again when a new return address appears.
 */
#pragma once

#include "agent/probes/open_calls.h"
#include "agent/qemu/vcpu.h"

/* Called once. False: no memory. */
bool returns_init(void);
/* The mark of a block that begins at `va`: not 0 if a vCPU may return to it. */
qemu_plugin_u64 returns_mark(uint64_t va);
/* Sets the mark of a block for all vCPUs. Any thread. */
void returns_watch(uint64_t va);
/* Clears all marks. No vCPU is in guest code. */
void returns_forget(void);
/* A vCPU begins: it gets all marks that are set. */
void returns_begin_vcpu(unsigned vcpu);

/*
 * The key of the call whose function begins where the vCPU is. In a callback that may read
 * registers. False: its stack cannot be read.
 */
bool returns_key_of_call(struct vcpu *vcpu, uint64_t function, struct call_key *ret);
/* The key of the calls that have returned if the vCPU begins a block at `pc`. */
struct call_key returns_key_of_block(struct vcpu *vcpu, uint64_t pc);
