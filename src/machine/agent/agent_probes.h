/* SPDX-License-Identifier: MIT */
/*
 * Probes that the agent inside QEMU runs (machine/probes.h). The machine does not stop for them.
 * The agent numbers the hits over all vCPUs. Each vCPU writes its hits into its own ring.
 */
#pragma once

#include "machine/agent/link.h"
#include "machine/probes.h"

/* All probes of this program in a machine. The engine embeds it. */
struct vms_agent_prober {
	struct vms_machine *machine;
	struct vms_agent_link *link;
	const unsigned *cpu_index; /* the agent's index of each vCPU of the machine */
	/* By the agent's number of a register: the architecture's number, or -1. */
	const int8_t *reg_of;
	GMutex request_lock; /* held during a request and its reply */
	bool is_late;	     /* a reply was not in time: the next one received may be that one */
	atomic_bool is_busy; /* the last take found hits */
	GMutex lock;	     /* guards all below */
	GPtrArray *sets;
	uint32_t last_id;
};

/* The caller sets the other members. What they point to must outlive the prober. */
void vms_agent_prober_init(struct vms_agent_prober *prober);
/* All probes must have been freed. */
void vms_agent_prober_clear(struct vms_agent_prober *prober);

/* See struct vms_probe_engine. A place that halts the machine is refused with UNSUPPORTED. */
struct vms_probes *vms_agent_probes_arm(struct vms_agent_prober *prober,
					const struct vms_probes_request *request, GError **error);
bool vms_agent_probes_take(struct vms_agent_prober *prober, unsigned timeout_ms, GError **error);
bool vms_agent_probes_disarm(struct vms_probes *probes, GError **error);
bool vms_agent_probes_is_armed(struct vms_probes *probes);
void vms_agent_probes_counts(struct vms_probes *probes, struct vms_probes_counts *ret);
void vms_agent_probes_free(struct vms_probes *probes);
void vms_agent_probes_tallies(struct vms_probes *probes, struct vms_tallies *ret);
