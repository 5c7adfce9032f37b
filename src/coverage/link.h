/* SPDX-License-Identifier: MIT */
/* Requests coverage from an agent, and reads the shared memory. Nothing in it is trusted. */
#pragma once

#include "machine/agent/link.h"
#include <vmscope/machine.h>

struct vms_coverage_link {
	struct vms_agent_link *agent; /* NULL: not open */
	struct vms_agent_covered *shared;
	size_t size; /* bytes of it */
	/* The agent's first values, which were checked against the size. */
	uint64_t blocks_offset, marks_offset;
	uint32_t max_blocks, n_vcpus;
	int woken; /* a socket: the agent sends a byte when it asks for a look; or -1 */
	struct vms_agent_coverage start; /* the last request to the agent */
};

/*
 * Connects to the agent of a machine. The caller closes the link in any case. Errors: UNSUPPORTED
 * (there is no agent, or it is too old), those of the link.
 */
bool vms_coverage_link_open(struct vms_coverage_link *link, struct vms_machine *machine,
			    GError **error);
/*
 * Begins the coverage. `max_blocks`: 0 for the default. `look`: see vms_coverage_link_set_look.
 * Errors: those of the agent, PROTOCOL, IO.
 */
bool vms_coverage_link_start(struct vms_coverage_link *link, uint64_t from, uint64_t to,
			     uint64_t look, uint32_t max_blocks, GError **error);
/*
 * Sets the address at which the agent asks for a look; 0: none. Does nothing if the address has not
 * changed, because QEMU would translate all code again. Errors: as above.
 */
bool vms_coverage_link_set_look(struct vms_coverage_link *link, uint64_t look, GError **error);
/* Ends the coverage. The memory stays mapped. */
void vms_coverage_link_stop(struct vms_coverage_link *link);
/*
 * Takes the layout of `link->shared`, of `link->size` bytes, from the agent. False if it does not
 * fit into the size. For vms_coverage_link_start, and for tests without an agent.
 */
bool vms_coverage_link_take_layout(struct vms_coverage_link *link);
/* Closes a link. A zeroed link may be closed. */
void vms_coverage_link_close(struct vms_coverage_link *link);

uint32_t vms_coverage_link_blocks(const struct vms_coverage_link *link);
uint64_t vms_coverage_link_lost(const struct vms_coverage_link *link);
enum vms_agent_coverage_state vms_coverage_link_state(const struct vms_coverage_link *link);
/* Returns the description of a block. Its number must be below vms_coverage_link_blocks. */
struct vms_agent_block_covered vms_coverage_link_block(const struct vms_coverage_link *link,
						       uint32_t block);
/*
 * In addition to enum vms_agent_ran: the only instruction of the block is in the middle of another
 * block, which was left there, and it ran alone.
 */
#define VMS_COVERAGE_RAN_AMID (1U << 2)
/* Returns which parts of a block have run, as these flags. */
unsigned vms_coverage_link_ran(const struct vms_coverage_link *link, uint32_t block);
/*
 * From now on a block that is translated gets a new number, even at the address of an earlier one.
 */
void vms_coverage_link_new_epoch(struct vms_coverage_link *link);
/*
 * True if the agent has asked for a look at the guest: a vCPU waits for the answer. `*looks` is how
 * many were asked for.
 */
bool vms_coverage_link_wants_look(const struct vms_coverage_link *link, uint32_t *looks);
/* Answers the looks that had been asked for when the look began. */
void vms_coverage_link_answer_look(struct vms_coverage_link *link, uint32_t looks);
/* True if the guest has run programs. */
bool vms_coverage_link_has_programs(const struct vms_coverage_link *link);
/* Resets this after a reset of the guest. */
void vms_coverage_link_forget_programs(struct vms_coverage_link *link);
