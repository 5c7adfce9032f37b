/* SPDX-License-Identifier: MIT */
/*
 * Probes in a machine: places in the guest's code where programs are run each time a vCPU comes
 * there. What the places are for, only the caller knows (flow/). An engine does it in one of two
 * ways: by breakpoints that stop the machine (machine/gdb/stop_probes.c), or inside QEMU
 * (agent/probes/), where nothing stops.
 */
#pragma once

#include "machine/engine.h"
#include "probe/tally.h"

/* Where to run a program. */
struct vms_place {
	uint64_t va;			   /* of an instruction */
	bool after;			   /* run it after the instruction, else before */
	bool halts;			   /* stop the machine after a hit, and leave it so */
	const struct vms_program *program; /* copied; checked by vms_program_check */
	/*
	 * Not NULL: a function begins at `va`. Where `program` comes to its end, this one is run
	 * when that call returns. If it comes to its end, that is the hit: with the values of both,
	 * one behind the other, and the time and the vCPU of the return.
	 */
	const struct vms_program *at_return;
};

/* One run of a program that came to its end. */
struct vms_hit {
	uint64_t number;  /* counts the hits of these probes over all vCPUs, from 1 */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	unsigned place;	  /* index of struct vms_place */
	unsigned vcpu;
	const uint8_t *values; /* what the program has collected */
	size_t size;	       /* bytes of it */
	/*
	 * The registers of the vCPU while it is held at the place. NULL: it has gone on already.
	 * The whole machine is held then, too, and can be read.
	 */
	const struct vms_regs *regs;
};

struct vms_probes_request {
	const struct vms_place
		*places; /* sorted by nothing; no two with the same `va` and `after` */
	size_t n;
	int vcpu;	   /* whose hits count, or VMS_ALL_VCPUS */
	uint64_t max_hits; /* after that many hits all are taken away; 0: no limit */
	/*
	 * Gets every hit, in the order of their numbers, in the thread that takes hits, which may
	 * be any that calls vms_machine_take_hits. It must not arm, disarm or take.
	 */
	void (*hit)(const struct vms_hit *hit, void *data);
	void *data;
	/*
	 * Hits are added up by this, and `hit` is not called: vms_probes_read_tallies gives what
	 * there is. Copied; checked by vms_tally_lay_out. NULL: they are handed out.
	 */
	const struct vms_tally_shape *tally;
};

/* What has happened at the places so far. */
struct vms_probes_counts {
	uint64_t hits;	   /* programs that came to their end; not of hits that are added up */
	uint64_t rejected; /* programs that ended since what they require does not hold */
	uint64_t unknown;  /* … since what they require cannot be told */
	uint64_t lost;	   /* hits whose values were lost: numbers that `hit` never gets */
};

/* What a machine has added up. */
struct vms_tallies {
	/* By vCPU, or of several together. Memory of struct vms_tally; it may change all the time.
	 */
	const void *const *memory;
	unsigned n;
	const struct vms_tally_shape *shape;
	const struct vms_tally_layout *layout;
};

/* Probes that are armed together. An engine embeds it as the first member of its own. */
struct vms_probes {
	struct vms_machine *machine;
	struct vms_local_tally
		*local; /* of probes.c: for an engine that does not add up; or NULL */
};
typedef struct vms_probes vms_probes;

/*
 * The part of an engine that has probes: all functions but `tallies`, or none. No lock is held at a
 * call. Without `tallies`, hits are handed out and added up here.
 */
struct vms_probe_engine {
	struct vms_probes *(*arm)(struct vms_machine *machine,
				  const struct vms_probes_request *request, GError **error);
	bool (*take)(struct vms_machine *machine, unsigned timeout_ms, GError **error);
	bool (*disarm)(struct vms_probes *probes, GError **error);
	bool (*is_armed)(struct vms_probes *probes);
	void (*counts)(struct vms_probes *probes, struct vms_probes_counts *ret);
	void (*free)(struct vms_probes *probes);
	/* What there is until `free`, also when nothing is armed any more. */
	void (*tallies)(struct vms_probes *probes, struct vms_tallies *ret);
};

/*
 * Arms all places or, if it fails, none, with every vCPU held meanwhile if the engine holds any.
 * Several probes can be armed at the same time, and at the same places. Errors: UNSUPPORTED (the
 * engine has no probes, or does not do one of these things), UNREADABLE (there is no code at a
 * place), BUSY (no room), NOT_NOW and others of vms_machine_hold.
 */
struct vms_probes *vms_probes_arm(struct vms_machine *machine,
				  const struct vms_probes_request *request, GError **error);
/*
 * Waits until there are hits of any probes of the machine, or the time is over, and hands them out.
 * Returns false if no more can come: the machine has ended, or the connection is lost. Errors:
 * CLOSED, PROTOCOL, …
 */
bool vms_machine_take_hits(struct vms_machine *machine, unsigned timeout_ms, GError **error);
/*
 * Takes the places of these probes away, and nobody else's. All hits that came before have been
 * handed out when it returns. It goes on after an error, and returns the first. Does nothing if
 * they are not armed any more; it is NOT_NOW if something has taken them away before.
 */
bool vms_probes_disarm(struct vms_probes *probes, GError **error);
/* False when they were taken away: by vms_probes_disarm, by their limit, or with the machine. */
bool vms_probes_is_armed(struct vms_probes *probes);
void vms_probes_counts(struct vms_probes *probes, struct vms_probes_counts *ret);
/*
 * Hands out what has been added up so far: every entry of every tally, so a key may come several
 * times. Returns how many hits have found no room. `entry` is a copy, as the layout of the shape
 * says. When the probes are not armed any more, this is all.
 */
uint64_t vms_probes_read_tallies(struct vms_probes *probes,
				 void (*each)(const struct vms_tally_entry *entry, void *data),
				 void *data);
/* Disarms and frees. NULL is allowed. */
void vms_probes_free(struct vms_probes *probes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_probes, vms_probes_free)
