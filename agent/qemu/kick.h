/* SPDX-License-Identifier: MIT */
/*
 * A kick makes a vCPU leave its code and call the agent in its own thread, before it executes more.
 *
 * QEMU's interface for plugins offers one way to do that: to instrument code. But while any plugin
 * has a callback of translation, QEMU's code for each memory access is slower, whatever the plugin
 * does. QEMU itself has a queue of work for each vCPU. If the agent can use it (internals.h), a
 * kick is work in that queue. Otherwise blocks that may leave a function or repeat a loop check a
 * flag of their vCPU at their begin, and a kick sets that flag.
 */
#pragma once

#include "agent/qemu/vcpu.h"

/*
 * `on_kick` runs in the thread of a kicked vCPU. It may read registers and wait. `on_halt` runs
 * when a vCPU is about to halt that QEMU does not report as idle (vcpus_one_thread). `next` is the
 * address of the instruction after the halt. `api` is the version of QEMU's plugin interface. If
 * `internals` is false, the queue is not used. False if there is no memory.
 */
bool kick_init(qemu_plugin_id_t id, unsigned api, bool internals,
	       void (*on_kick)(struct vcpu *vcpu),
	       void (*on_halt)(struct vcpu *vcpu, uint64_t next));
/*
 * Must be called before and after a wait in `on_kick`. They release QEMU's big lock, which a vCPU
 * that was kicked by the queue holds.
 */
void kick_begin_wait(void);
void kick_end_wait(void);
/* True if code must be instrumented for kicks. */
bool kick_needs_code(void);
/* Instruments a block for kicks. Called in the callback of translation. */
void kick_translate(struct qemu_plugin_tb *tb);

/*
 * Kick one vCPU, or all. Several kicks may have the effect of one. A vCPU that is halted, or whose
 * machine is paused, answers at once if it is kicked by the queue, and when it continues if it is
 * kicked by its flag. Any thread that holds no vCPU's lock.
 */
void kick_vcpu(unsigned index);
void kick_all_vcpus(void);
