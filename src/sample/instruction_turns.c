/* SPDX-License-Identifier: MIT */
#include "sample/instruction_turns.h"
#include "machine/agent/link.h"
#include "machine/engine.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/log.h>

#define SLICE_NS (20 * 1000 * 1000)

struct vms_turns {
	struct vms_agent_link *link;
	struct vms_agent_turns *shared;
	size_t size;
	unsigned n_vcpus;
	uint32_t *taken; /* by vCPU: the last turn that was taken */
};

static bool map_turns(struct vms_turns *turns, int fd, GError **error)
{
	turns->size = turns->link->hello.max_vcpus * sizeof(struct vms_agent_turn);
	turns->shared = vms_agent_map(turns->link, fd, turns->size, error);
	return turns->shared;
}

static bool start(struct vms_turns *turns, struct vms_machine *machine, uint64_t instructions,
		  GError **error)
{
	const struct vms_machine_info *info = vms_machine_info(machine);
	struct vms_agent_period request = { .message = { .kind = VMS_AGENT_PERIOD_START },
					    .instructions = instructions };
	int fd;
	turns->link = vms_agent_link_open(info->agent, info->pid, error);
	if (!turns->link ||
	    !vms_agent_link_require(turns->link, VMS_AGENT_CAN_COUNT_INSTRUCTIONS, error) ||
	    !vms_agent_request(turns->link, &request.message, sizeof(request), -1, &fd, 1, error))
		return false;
	const bool mapped = map_turns(turns, fd, error);
	close(fd);
	return mapped;
}

struct vms_turns *vms_turns_start(struct vms_machine *machine, uint64_t instructions,
				  GError **error)
{
	const struct vms_machine_info *info = vms_machine_info(machine);
	if (!info->agent || !vms_machine_holds_each(machine)) {
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			"cannot count instructions of %s: that takes the agent; start QEMU with "
			"vmscope run; if it was, another vmscope uses the agent now",
			info->name);
		return NULL;
	}
	if (instructions < VMS_AGENT_MIN_PERIOD) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "the period between samples must be %d instructions at least",
			    VMS_AGENT_MIN_PERIOD);
		return NULL;
	}
	struct vms_turns *turns = g_new0(struct vms_turns, 1);
	turns->n_vcpus = vms_machine_vcpus(machine);
	turns->taken = g_new0(uint32_t, turns->n_vcpus);
	if (start(turns, machine, instructions, error) &&
	    turns->n_vcpus <= turns->link->hello.max_vcpus)
		return turns;
	vms_turns_free(turns);
	return NULL;
}

void vms_turns_free(struct vms_turns *turns)
{
	if (!turns)
		return;
	if (turns->shared)
		munmap(turns->shared, turns->size);
	vms_agent_link_close(turns->link); /* the agent ends the turns, too */
	g_free(turns->taken);
	g_free(turns);
}

bool vms_turns_wait(struct vms_turns *turns, unsigned vcpu)
{
	struct vms_agent_turn *turn = &turns->shared->vcpu[vcpu];
	const struct timespec slice = { .tv_nsec = SLICE_NS };
	if (atomic_load(&turn->due) == turns->taken[vcpu])
		syscall(SYS_futex, &turn->due, FUTEX_WAIT, turns->taken[vcpu], &slice, NULL, 0);
	const uint32_t due = atomic_load(&turn->due);
	const bool has_turn = due != turns->taken[vcpu];
	__atomic_store_n(&turns->taken[vcpu], due, __ATOMIC_RELAXED);
	return has_turn;
}

void vms_turns_end(struct vms_turns *turns, unsigned vcpu)
{
	struct vms_agent_turn *turn = &turns->shared->vcpu[vcpu];
	atomic_store(&turn->done, turns->taken[vcpu]);
	syscall(SYS_futex, &turn->done, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint64_t vms_turns_count(const struct vms_turns *turns, unsigned vcpu)
{
	return __atomic_load_n(&turns->taken[vcpu], __ATOMIC_RELAXED) +
	       atomic_load(&turns->shared->vcpu[vcpu].missed);
}
