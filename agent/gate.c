/* SPDX-License-Identifier: MIT */
#include "agent/gate.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int call_membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

struct gate *gates_new(unsigned n)
{
	struct gate *gates = aligned_alloc(_Alignof(struct gate), n * sizeof(*gates));
	if (gates)
		memset(gates, 0, n * sizeof(*gates));
	return gates;
}

bool gates_prepare(void)
{
	return call_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

void gates_wait(const struct gate *gates, unsigned n)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	call_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	for (unsigned i = 0; i < n; i++)
		while (atomic_load_explicit(&gates[i].inside, memory_order_acquire))
			nanosleep(&pause, NULL);
}
