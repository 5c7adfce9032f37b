/* SPDX-License-Identifier: MIT */
/*
 * Gates between vCPUs and what a service takes away from them.
 *
 * A vCPU's own thread is inside its gate while it uses what the service has published in an atomic
 * pointer. To enter costs no more than a store. A thread that takes that away first empties the
 * pointer. Then it has the kernel order the memory of all threads (membarrier), and waits for those
 * that are inside. From then on nobody uses it, whether vCPUs run, are halted or held.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct gate {
	_Alignas(64) _Atomic bool inside;
};

/* Makes gates for `n` vCPUs, which exist as long as the plugin. NULL: no memory. */
struct gate *gates_new(unsigned n);
/* Call it once, and see that it succeeds, before gates_wait. False: errno tells. */
bool gates_prepare(void);
/* Waits until no vCPU still uses what it had found before the call. */
void gates_wait(const struct gate *gates, unsigned n);

/* What the service publishes is loaded after this. */
static inline void gate_enter(struct gate *gate)
{
	atomic_store_explicit(&gate->inside, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier of gates_wait */
}

static inline void gate_leave(struct gate *gate)
{
	atomic_store_explicit(&gate->inside, false, memory_order_release);
}
