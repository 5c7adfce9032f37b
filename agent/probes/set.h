/* SPDX-License-Identifier: MIT */
/*
 * A set of probes: what one PROBES_START has armed (machine/agent/protocol.h). Nothing of what the
 * client has sent is used before it was checked.
 */
#pragma once

#include "agent/clock.h"
#include "agent/probes/open_calls.h"
#include "agent/probes/vcpu_tallies.h"
#include "agent/request.h"
#include "agent/ring.h"
#include "agent/rings.h"
#include "probe/program.h"

/* A vCPU's part of a set. Only for the vCPU's own thread. */
struct prober {
	struct vms_ring ring;
	struct clock clock;
	_Atomic bool has_memory; /* the ring's memory was allocated, and the tally's */
	uint64_t rejected, unknown;
};

/* Registers that are kept from a call until it returns. */
struct kept_list {
	uint32_t reg[VMS_ARGUMENTS_KEPT_MAX];
	unsigned n;
};

struct probe_set {
	struct vms_agent_probes options;
	unsigned client;
	pid_t pid;		      /* of the client; 0: unknown */
	struct vms_agent_place *file; /* places, and the operations behind them; from malloc */
	struct vms_program *programs; /* by place */
	uint32_t *returns;	      /* by place: of a call, the place with its return */
	struct kept_list *kept;	      /* by place: of a call, what its return needs of it */
	struct open_calls *calls;     /* NULL: no place is a call */
	struct rings rings;
	struct tallies tallies;	  /* if options.tallies */
	_Atomic uint64_t tallied; /* hits that were added up, if there is a limit */
	_Atomic bool armed;	  /* hits count */
	_Atomic bool ended;	  /* by its limit */
	unsigned n;
	struct prober prober[]; /* by vCPU */
};

/* What a place does at a vCPU that has come there. */
struct probe_hit {
	uint32_t place;
	unsigned vcpu; /* below `n` of the set */
	const struct vms_program_input *input;
};

/* Checks a request and makes its set for `n` vCPUs. NULL: the reply says why. */
struct probe_set *probe_set_new(const struct request *request, unsigned n, struct reply *reply);
void probe_set_free(struct probe_set *set);
/* Allocates the memory of a vCPU's ring and tally. False: its hits will be lost; errno tells. */
bool probe_set_reserve(struct probe_set *set, unsigned vcpu);
/* Ends all waits for room in the rings: nobody reads them any more. */
void probe_set_abandon(struct probe_set *set);
/*
 * Runs the program of a place and records its hit, or adds it up, in the thread of the vCPU. It may
 * wait for room in the ring. True: the set has ended by this hit.
 */
bool probe_set_run(struct probe_set *set, const struct probe_hit *hit);
/* The same for the call of a function, whose return will be the hit. */
bool probe_set_call(struct probe_set *set, const struct probe_hit *hit, const struct call_key *key);
/* The same for a call that has returned. The hit tells no place. */
bool probe_set_return(struct probe_set *set, const struct probe_hit *hit,
		      const struct open_call *call);
