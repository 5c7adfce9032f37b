/* SPDX-License-Identifier: MIT */
/*
 * Kicking a vCPU: having it come out of its code, in its own thread, before it executes more.
 *
 * QEMU's interface for plugins offers one way to do that, which is to instrument code. But while
 * any plugin sees what is translated, QEMU's code for each access to memory is slower, whatever the
 * plugin does. QEMU itself has a queue of work for each vCPU. If the agent can reach it
 * (internals.h), a kick is work in that queue. Otherwise code that leaves a function or goes round
 * a loop checks a flag of its vCPU where it begins, and a kick sets that flag.
 */
#pragma once

#include "agent/qemu/vcpu.h"

/*
 * `on_kick` runs in the thread of a vCPU that was kicked; it may read registers and wait. `on_halt`
 * runs when a vCPU that QEMU does not report as idle is about to halt (vcpus_one_thread); `next` is
 * the address of the instruction after that. `api` is the version of QEMU's plugin interface.
 * `internals` false: the queue is not used. False: no memory.
 */
bool kick_init(qemu_plugin_id_t id, unsigned api, bool internals,
	       void (*on_kick)(struct vcpu *vcpu),
	       void (*on_halt)(struct vcpu *vcpu, uint64_t next));
/* Around a wait in `on_kick`: a vCPU that was kicked by the queue holds QEMU's big lock. */
void kick_begin_wait(void);
void kick_end_wait(void);
/* True if code must be instrumented for kicks. */
bool kick_needs_code(void);
/* Instruments a block, if so. In the callback of translation. */
void kick_translate(struct qemu_plugin_tb *tb);

/*
 * Kick one vCPU, or all. Kicks that follow each other may count as one. A vCPU that is halted, or
 * whose machine is paused, comes at once if it is kicked by the queue, and when it goes on if it is
 * kicked by its flag. From any thread that holds no vCPU's lock.
 */
void kick_vcpu(unsigned index);
void kick_all_vcpus(void);
