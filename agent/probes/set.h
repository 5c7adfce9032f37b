/* SPDX-License-Identifier: MIT */
/*
 * A set of probes: all that one PROBES_START has armed (machine/agent/protocol.h). Everything that
 * the client sends is checked before it is used.
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

/* Registers whose values are kept from a call until its return. */
struct kept_list {
	uint32_t reg[VMS_ARGUMENTS_KEPT_MAX];
	unsigned n;
};

struct probe_set {
	struct vms_agent_probes options;
	unsigned client;
	pid_t pid;		      /* of the client; 0: unknown */
	struct vms_agent_place *file; /* places, and behind them operations; from malloc */
	struct vms_program *programs; /* by place */
	uint32_t *returns;	      /* by place of a call: the place of its return */
	struct kept_list *kept;	      /* by place of a call: the arguments that its return uses */
	struct open_calls *calls;     /* NULL: no place is a call */
	struct rings rings;
	struct tallies tallies;	  /* if options.tallies */
	_Atomic uint64_t tallied; /* hits in the tallies, if there is a limit of hits */
	_Atomic bool armed;	  /* hits count from now on */
	_Atomic bool ended;	  /* the limit of hits was reached */
	unsigned n;
	struct prober prober[]; /* by vCPU */
};

/* A vCPU is at a place. */
struct probe_hit {
	uint32_t place;
	unsigned vcpu; /* below `n` of the set */
	const struct vms_program_input *input;
};

/* Checks a request, and makes its set for `n` vCPUs. NULL with an error in the reply. */
struct probe_set *probe_set_new(const struct request *request, unsigned n, struct reply *reply);
void probe_set_free(struct probe_set *set);
/* Allocates the memory of a vCPU's ring and tally. False with errno set: its hits will be lost. */
bool probe_set_reserve(struct probe_set *set, unsigned vcpu);
/* Ends all waits for room in the rings, because no client reads them any more. */
void probe_set_abandon(struct probe_set *set);
/*
 * Runs the program of a place, and records its hit or adds it to a tally. Called in the vCPU's
 * thread. May wait for room in the ring. True if this hit has ended the set.
 */
bool probe_set_run(struct probe_set *set, const struct probe_hit *hit);
/* The same at the call of a function. The hit is recorded when the call returns. */
bool probe_set_call(struct probe_set *set, const struct probe_hit *hit, const struct call_key *key);
/* The same for a call that has returned. `place` of the hit is not used. */
bool probe_set_return(struct probe_set *set, const struct probe_hit *hit,
		      const struct open_call *call);
