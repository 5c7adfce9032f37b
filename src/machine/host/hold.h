/* SPDX-License-Identifier: MIT */
/*
 * Whose stop it is that a machine stands still by, and what is still to be done about it: one small
 * state machine that the tool and its watchdog share in memory, and, where both have died, the next
 * tool finds in a file (docs/safety.md has a drawing). Each change is one compare and swap, so that
 * of two who would let a machine go on, one does.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum vms_hold_phase {
	VMS_HOLD_NONE, /* nothing of ours: never touch the machine */
	VMS_HOLD_HELD, /* a stop of ours is in force, or was asked for and may be still to come */
	VMS_HOLD_LOOKING, /* somebody else's stop; a request on its way would stop a machine that
			     its owner has resumed */
	VMS_HOLD_TAKEN,	  /* the watchdog has let it go on, for a tool that did not move */
	VMS_HOLD_OWED,	  /* our stop is to be undone, and QEMU has not done that yet */
};

struct vms_hold {
	_Atomic uint64_t word;	   /* number of the hold << 3 | enum vms_hold_phase */
	_Atomic uint64_t begin_ns; /* CLOCK_MONOTONIC, when the hold began */
	_Atomic uint64_t limit_ns; /* how long it may last */
	atomic_bool stub;	   /* a stub was added to QEMU, or is about to be */
	/* Of a bare stub's client: one more before each request is sent, and one more after. */
	_Atomic uint64_t requests;
};

static inline enum vms_hold_phase vms_hold_phase(uint64_t word)
{
	return (enum vms_hold_phase)(word & 7);
}

static inline uint64_t vms_hold_in_phase(uint64_t word, enum vms_hold_phase phase)
{
	return (word & ~UINT64_C(7)) | (uint64_t)phase;
}

/* Is there a stop that may be ours? */
static inline bool vms_hold_may_be_ours(enum vms_hold_phase phase)
{
	return phase == VMS_HOLD_HELD || phase == VMS_HOLD_TAKEN || phase == VMS_HOLD_OWED;
}

/* The next hold begins. */
static inline void vms_hold_begin(struct vms_hold *hold, enum vms_hold_phase phase, uint64_t now_ns,
				  uint64_t limit_ns)
{
	uint64_t number = (atomic_load(&hold->word) >> 3) + 1;
	atomic_store(&hold->begin_ns, now_ns);
	atomic_store(&hold->limit_ns, limit_ns);
	atomic_store(&hold->word, number << 3 | (uint64_t)phase);
}

/* To another phase, unless the phase is not `from` any more. */
static inline bool vms_hold_change(struct vms_hold *hold, enum vms_hold_phase from,
				   enum vms_hold_phase to)
{
	uint64_t word = atomic_load(&hold->word);
	return vms_hold_phase(word) == from &&
	       atomic_compare_exchange_strong(&hold->word, &word, vms_hold_in_phase(word, to));
}
