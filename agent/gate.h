/* SPDX-License-Identifier: MIT */
/*
 * Gates let a service free data that vCPUs use, without a lock in the vCPUs' threads.
 *
 * The service publishes the data in an atomic pointer. A vCPU's own thread is inside its gate while
 * it uses the data. To enter a gate costs a store. A thread that wants to free the data first
 * clears the pointer. Then it makes the kernel order the memory accesses of all threads
 * (membarrier), and waits for the vCPUs that are inside their gates. After that no vCPU uses the
 * data, whether it runs, is halted or is held.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct gate {
	_Alignas(64) _Atomic bool inside;
};

/* Makes gates for `n` vCPUs. They are never freed. NULL if there is no memory. */
struct gate *gates_new(unsigned n);
/* Must have succeeded once before gates_wait is called. False with errno set. */
bool gates_prepare(void);
/* Waits until no vCPU uses data that it found before the call. */
void gates_wait(const struct gate *gates, unsigned n);

/* Must be called before the published pointer is loaded. */
static inline void gate_enter(struct gate *gate)
{
	atomic_store_explicit(&gate->inside, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier of gates_wait */
}

static inline void gate_leave(struct gate *gate)
{
	atomic_store_explicit(&gate->inside, false, memory_order_release);
}
