/* SPDX-License-Identifier: MIT */
/*
 * Marks of addresses that vCPUs may return to from followed calls. Code behind a call begins a
 * block. A block checks a mark of its vCPU before it is executed. The offset of the block in its
 * page selects the mark, so several blocks share one. Because of the marks code need not be
 * translated again for a new return address.
 */
#pragma once

#include "agent/probes/open_calls.h"
#include "agent/qemu/vcpu.h"

/* Called once. False if there is no memory. */
bool returns_init(void);
/* Returns the mark of a block that begins at `va`. It is not 0 if a vCPU may return there. */
qemu_plugin_u64 returns_mark(uint64_t va);
/* Sets the mark of a block for all vCPUs. Any thread. */
void returns_watch(uint64_t va);
/* Clears all marks. No vCPU is in guest code. */
void returns_forget(void);
/* Sets the marks of a vCPU that begins: the same as those of all others. */
void returns_begin_vcpu(unsigned vcpu);

/*
 * Finds the key of a call. The vCPU is at the begin of the called function, in a callback that may
 * read registers. False if its stack cannot be read.
 */
bool returns_key_of_call(struct vcpu *vcpu, uint64_t function, struct call_key *ret);
/* Returns the key of the calls that have returned if the vCPU begins a block at `pc`. */
struct call_key returns_key_of_block(struct vcpu *vcpu, uint64_t pc);
