/* SPDX-License-Identifier: MIT */
/* Asks an agent for coverage, and reads the memory that it shares. Nothing in it is trusted. */
#pragma once

#include "machine/agent/link.h"
#include <vmscope/machine.h>

struct vms_coverage_link {
	struct vms_agent_link *agent; /* NULL: not open */
	struct vms_agent_covered *shared;
	size_t size; /* bytes of it */
	/* As the agent said first; they fit into the size. */
	uint64_t blocks_offset, marks_offset;
	uint32_t max_blocks, n_vcpus;
	int woken; /* a socket: the agent sends a byte when it asks for a look; or -1 */
	struct vms_agent_coverage start; /* the last request that the agent got */
};

/*
 * Connects to the agent of a machine. The caller closes it in any case. Errors: UNSUPPORTED (there
 * is no agent, or it is too old), those of the link.
 */
bool vms_coverage_link_open(struct vms_coverage_link *link, struct vms_machine *machine,
			    GError **error);
/*
 * Begins. `max_blocks`: 0 for the default. `look`: see vms_coverage_link_look. Errors: those of the
 * agent, PROTOCOL, IO.
 */
bool vms_coverage_link_start(struct vms_coverage_link *link, uint64_t from, uint64_t to,
			     uint64_t look, uint32_t max_blocks, GError **error);
/*
 * Says at which address the agent is to ask for a look; 0: nowhere. Does nothing if it knows that:
 * QEMU translates all code again. Errors: as above.
 */
bool vms_coverage_link_look(struct vms_coverage_link *link, uint64_t look, GError **error);
/* Ends it. The memory stays. */
void vms_coverage_link_stop(struct vms_coverage_link *link);
/*
 * Takes the agent's description of `link->shared`, of `link->size` bytes. False: it does not fit
 * into that. For vms_coverage_link_start, and for tests without an agent.
 */
bool vms_coverage_link_take_layout(struct vms_coverage_link *link);
/* May be called for a zeroed one. */
void vms_coverage_link_close(struct vms_coverage_link *link);

uint32_t vms_coverage_link_blocks(const struct vms_coverage_link *link);
uint64_t vms_coverage_link_lost(const struct vms_coverage_link *link);
enum vms_agent_coverage_state vms_coverage_link_state(const struct vms_coverage_link *link);
/* Returns what is known of a block, whose number is below the number of blocks. */
struct vms_agent_block_covered vms_coverage_link_block(const struct vms_coverage_link *link,
						       uint32_t block);
/* Beside enum vms_agent_ran: its only instruction ran amid another block, which it ended. */
#define VMS_COVERAGE_RAN_AMID (1U << 2)
/* Returns what of a block has run, of these flags. */
unsigned vms_coverage_link_ran(const struct vms_coverage_link *link, uint32_t block);
/* From now on blocks that are translated are not those of before, even at the same addresses. */
void vms_coverage_link_new_epoch(struct vms_coverage_link *link);
/* True if the agent has asked for a look at the guest. A vCPU waits for the answer. */
bool vms_coverage_link_wants_look(const struct vms_coverage_link *link);
/* Answers all looks that were asked for. */
void vms_coverage_link_answer_look(struct vms_coverage_link *link);
/* True if the guest has run programs. */
bool vms_coverage_link_has_programs(const struct vms_coverage_link *link);
/* Forgets that: the guest was reset. */
void vms_coverage_link_forget_programs(struct vms_coverage_link *link);
