/* SPDX-License-Identifier: MIT */
#include "coverage/link.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/log.h>

#define MAX_BLOCKS (UINT32_C(1) << 20) /* the default: five times what a boot of Debian has */

bool vms_coverage_link_open(struct vms_coverage_link *link, struct vms_machine *machine,
			    GError **error)
{
	const struct vms_machine_info *info = vms_machine_info(machine);
	*link = (struct vms_coverage_link) { .woken = -1 };
	if (!info->agent) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot measure coverage of %s: its QEMU has no agent; start it with "
			    "vmscope run",
			    info->name);
		return false;
	}
	link->agent = vms_agent_link_open(info->agent, info->pid, error);
	return link->agent && vms_agent_link_require(link->agent, VMS_AGENT_CAN_COVER, error);
}

void vms_coverage_link_close(struct vms_coverage_link *link)
{
	if (link->shared)
		munmap(link->shared, link->size);
	if (link->agent && link->woken >= 0)
		close(link->woken);
	vms_agent_link_close(link->agent);
	*link = (struct vms_coverage_link) { .woken = -1 };
}

/* ---- beginning and ending ----------------------------------------------------------- */

/* Returns how many blocks to request: `wanted`, but not more than there is room for their marks. */
static uint32_t limit_blocks(uint32_t wanted, uint32_t n_vcpus)
{
	const uint64_t line = (uint64_t)n_vcpus * VMS_AGENT_MARKS_LINE;
	const uint64_t room = VMS_AGENT_MAX_MARKS / line * VMS_AGENT_BLOCKS_PER_LINE;
	const uint64_t most = MIN(room, VMS_AGENT_MAX_BLOCKS);
	const uint64_t n = MIN(MAX(wanted, VMS_AGENT_BLOCKS_PER_LINE), most);
	return (uint32_t)(n / VMS_AGENT_BLOCKS_PER_LINE * VMS_AGENT_BLOCKS_PER_LINE);
}

bool vms_coverage_link_take_layout(struct vms_coverage_link *link)
{
	const struct vms_agent_covered *shared = link->shared;
	if (link->size < sizeof(*shared))
		return false;
	link->blocks_offset = shared->blocks_offset;
	link->marks_offset = shared->marks_offset;
	link->max_blocks = shared->max_blocks;
	link->n_vcpus = shared->n_vcpus;
	return link->max_blocks <= VMS_AGENT_MAX_BLOCKS && link->n_vcpus > 0 &&
	       link->n_vcpus <= VMS_AGENT_MAX_VCPUS && link->blocks_offset <= link->size &&
	       link->blocks_offset % _Alignof(struct vms_agent_block_covered) == 0 &&
	       (link->size - link->blocks_offset) / sizeof(struct vms_agent_block_covered) >=
		       link->max_blocks &&
	       link->marks_offset <= link->size && link->marks_offset % sizeof(uint64_t) == 0 &&
	       link->max_blocks % VMS_AGENT_BLOCKS_PER_LINE == 0 &&
	       vms_agent_mark_offset(link->max_blocks, 0, link->n_vcpus, 0) <=
		       link->size - link->marks_offset;
}

static bool map_memory(struct vms_coverage_link *link, int fd, GError **error)
{
	struct stat file = { 0 };
	if (fstat(fd, &file) == 0 && file.st_size > 0)
		link->size = (size_t)file.st_size;
	link->shared = vms_agent_map(link->agent, fd, link->size, error);
	if (!link->shared || vms_coverage_link_take_layout(link))
		return link->shared;
	g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
		    "%s: the agent's memory for coverage has a wrong layout; restart QEMU with the "
		    "agent of this vmscope",
		    link->agent->stream.peer);
	return false;
}

bool vms_coverage_link_start(struct vms_coverage_link *link, uint64_t from, uint64_t to,
			     uint64_t look, uint32_t max_blocks, GError **error)
{
	int fds[2];
	link->start = (struct vms_agent_coverage) {
		.message = { .kind = VMS_AGENT_COVERAGE_START },
		.max_blocks = limit_blocks(max_blocks ?: MAX_BLOCKS, link->agent->hello.max_vcpus),
		.from = from,
		.to = to,
		.look = look,
	};
	if (!vms_agent_request(link->agent, &link->start.message, sizeof(link->start), -1, fds,
			       G_N_ELEMENTS(fds), error))
		return false;
	link->woken = fds[1];
	const bool mapped = map_memory(link, fds[0], error);
	close(fds[0]);
	return mapped;
}

bool vms_coverage_link_set_look(struct vms_coverage_link *link, uint64_t look, GError **error)
{
	if (link->start.look == look)
		return true;
	link->start.look = look;
	return vms_agent_request(link->agent, &link->start.message, sizeof(link->start), -1, NULL,
				 0, error);
}

void vms_coverage_link_stop(struct vms_coverage_link *link)
{
	struct vms_agent_message stop = { .kind = VMS_AGENT_COVERAGE_STOP };
	g_autoptr(GError) error = NULL;
	/* If QEMU does not answer, the coverage ends when the link is closed. */
	if (!vms_agent_request(link->agent, &stop, sizeof(stop), -1, NULL, 0, &error))
		vms_log(VMS_LOG_DEBUG, "%s", error->message);
}

/* ---- the shared memory -------------------------------------------------------------- */

uint32_t vms_coverage_link_blocks(const struct vms_coverage_link *link)
{
	const uint32_t n = atomic_load_explicit(&link->shared->n_blocks, memory_order_acquire);
	return MIN(n, link->max_blocks);
}

uint64_t vms_coverage_link_lost(const struct vms_coverage_link *link)
{
	return atomic_load(&link->shared->lost);
}

enum vms_agent_coverage_state vms_coverage_link_state(const struct vms_coverage_link *link)
{
	return (enum vms_agent_coverage_state)atomic_load(&link->shared->state);
}

static const struct vms_agent_block_covered *get_description(const struct vms_coverage_link *link,
							     uint32_t block)
{
	const unsigned char *memory = (const void *)link->shared;
	const struct vms_agent_block_covered *all = (const void *)(memory + link->blocks_offset);
	return &all[block];
}

struct vms_agent_block_covered vms_coverage_link_block(const struct vms_coverage_link *link,
						       uint32_t block)
{
	return *get_description(link, block);
}

unsigned vms_coverage_link_ran(const struct vms_coverage_link *link, uint32_t block)
{
	const unsigned char *marks = (const unsigned char *)link->shared + link->marks_offset;
	unsigned ran = 0;
	switch (vms_coverage_link_state(link)) {
	case VMS_AGENT_COVERAGE_RUNS: ran = vms_agent_marks_ran(marks, block, link->n_vcpus); break;
	case VMS_AGENT_COVERAGE_ENDED: ran = atomic_load(&get_description(link, block)->ran); break;
	case VMS_AGENT_COVERAGE_WAITS:
	default: break;
	}
	if (!ran || get_description(link, block)->n_insns > 1)
		return ran;
	const unsigned amid = ran & VMS_AGENT_RAN_BEGIN ? 0 : VMS_COVERAGE_RAN_AMID;
	return VMS_AGENT_RAN_BEGIN | VMS_AGENT_RAN_END | amid;
}

void vms_coverage_link_new_epoch(struct vms_coverage_link *link)
{
	atomic_fetch_add(&link->shared->epoch, 1);
}

bool vms_coverage_link_wants_look(const struct vms_coverage_link *link, uint32_t *looks)
{
	*looks = atomic_load(&link->shared->looks);
	return *looks != atomic_load(&link->shared->looked);
}

void vms_coverage_link_answer_look(struct vms_coverage_link *link, uint32_t looks)
{
	atomic_store(&link->shared->looked, looks);
}

bool vms_coverage_link_has_programs(const struct vms_coverage_link *link)
{
	return atomic_load(&link->shared->has_programs);
}

void vms_coverage_link_forget_programs(struct vms_coverage_link *link)
{
	atomic_store(&link->shared->has_programs, 0);
}
