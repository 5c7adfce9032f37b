/* SPDX-License-Identifier: MIT */
/*
 * Calling a vCPU: having it come to the plugin, in its own thread, before it executes more.
 *
 * QEMU's interface for plugins has one way to do that, which is to instrument code, and where any
 * plugin sees what is translated, QEMU's code for each access to memory is slower, whatever the
 * plugin does. But QEMU itself has a queue of work for each vCPU. Where that can be reached
 * (internals.h) it is used. Elsewhere code that leaves a function or goes round a loop looks at a
 * flag of its vCPU where it begins.
 */
#pragma once

#include "vcpu.h"

/*
 * `called` is what a vCPU comes to; it may read registers and wait. `halts` is called by code where
 * a vCPU that does not tell is about to halt, with the address of the next instruction. `api` is
 * QEMU's version of its interface; `internals` false: use nothing else. False: no memory.
 */
bool call_init(qemu_plugin_id_t id, unsigned api, bool internals, void (*called)(struct vcpu *vcpu),
	       void (*halts)(struct vcpu *vcpu, uint64_t next));
/* Around waiting: by the queue a vCPU comes with QEMU's big lock. */
void call_begin_wait(void);
void call_end_wait(void);
/* Must code be instrumented, for vCPUs to be called? */
bool call_needs_code(void);
/* In a callback of translation, if so. */
void call_translate(struct qemu_plugin_tb *tb);

/* In the vCPU's callbacks. */
void call_vcpu_init(struct vcpu *vcpu);
void call_vcpu_exit(struct vcpu *vcpu);

/*
 * Calls one, or all. One that is called twice before it comes may come once. One that is halted, or
 * whose machine is paused, comes at once by the queue, by its flag when it goes on. From any thread
 * but with no vCPU's lock held.
 */
void call_vcpu(unsigned index);
void call_all(void);
