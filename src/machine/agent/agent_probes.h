/* SPDX-License-Identifier: MIT */
/*
 * Probes that the agent inside QEMU runs (machine/probes.h): nothing in the machine stops. The
 * agent numbers the hits over all vCPUs, and each vCPU writes its own into its ring.
 */
#pragma once

#include "machine/agent/link.h"
#include "machine/probes.h"

/* All probes that this program has in a machine. Its engine embeds it. */
struct vms_agent_prober {
	struct vms_machine *machine;
	struct vms_agent_link *link;
	const unsigned *cpu_index; /* the agent's index of each vCPU of the machine */
	/* The architecture's number of each register of the agent's; -1: none. */
	const int8_t *reg_of;
	GMutex request_lock; /* taken for a request and its reply */
	bool is_late;	     /* a reply did not come in time: the next one may be that */
	atomic_bool is_busy; /* the last look found hits */
	GMutex lock;	     /* of what follows */
	GPtrArray *sets;
	uint32_t last_id;
};

/* Whatever the members point to stays valid until vms_agent_prober_clear. */
void vms_agent_prober_init(struct vms_agent_prober *prober);
/* No probes are left. */
void vms_agent_prober_clear(struct vms_agent_prober *prober);

/* See struct vms_probe_engine. Places that halt are refused with UNSUPPORTED. */
struct vms_probes *vms_agent_probes_arm(struct vms_agent_prober *prober,
					const struct vms_probes_request *request, GError **error);
bool vms_agent_probes_take(struct vms_agent_prober *prober, unsigned timeout_ms, GError **error);
bool vms_agent_probes_disarm(struct vms_probes *probes, GError **error);
bool vms_agent_probes_is_armed(struct vms_probes *probes);
void vms_agent_probes_counts(struct vms_probes *probes, struct vms_probes_counts *ret);
void vms_agent_probes_free(struct vms_probes *probes);
void vms_agent_probes_tallies(struct vms_probes *probes, struct vms_tallies *ret);
