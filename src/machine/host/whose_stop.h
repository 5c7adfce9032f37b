/* SPDX-License-Identifier: MIT */
/*
 * A small state machine that says whose stop a machine stands still by, and what is left to do
 * about it (docs/safety.md has a drawing). The tool and its watchdog share it in memory. If both
 * have died, the next tool finds it in a file. Each change is one compare and swap: when tool and
 * watchdog both want to release a machine, only one of them does.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum vms_hold_phase {
	/* No stop is ours. The watchdog does not touch the machine. */
	VMS_HOLD_NONE,
	/* A stop of ours is in force, or was requested and may still come. */
	VMS_HOLD_HELD,
	/*
	 * Somebody else has stopped the machine. A request to the stub is under way, which would
	 * stop the machine again if its owner had just resumed it. That holds until the request is
	 * answered or, where the stub is given up, until QEMU has removed that: only then nothing
	 * can come any more.
	 */
	VMS_HOLD_LOOKING,
	/* The watchdog has released the machine, because the tool did not move. */
	VMS_HOLD_TAKEN,
	/* A stop of ours has to be undone, and QEMU has not done so yet. */
	VMS_HOLD_OWED,
};

struct vms_hold {
	_Atomic uint64_t word;	   /* number of the hold << 3 | enum vms_hold_phase */
	_Atomic uint64_t begin_ns; /* CLOCK_MONOTONIC, when the hold began */
	_Atomic uint64_t limit_ns; /* how long the hold may last */
	atomic_bool stub;	   /* a stub was added to QEMU, or is about to be added */
	/*
	 * There may be breakpoints of ours, so that the machine may stop by itself, whatever the
	 * phase is.
	 */
	atomic_bool has_breakpoints;
	atomic_bool is_at_hit;	 /* the tool has seen that one of them has stopped the machine */
	atomic_bool is_cleared;	 /* the watchdog has removed them, behind the tool's back */
	atomic_bool is_stepping; /* a vCPU may be within a single step */
	/*
	 * Both are true until somebody resumes the machine. `is_left`: it was already stopped by
	 * somebody else when the tool looked. `halts`: its state `debug` stays, because a hit was
	 * asked to leave it so, or because a debugger did.
	 */
	atomic_bool is_left, halts;
	/* The greatest id of a vCPU in the stub, before there is a breakpoint. */
	_Atomic uint64_t last_thread;
	_Atomic uint64_t seen_ns; /* CLOCK_MONOTONIC, when the tool looked last after them */
	/*
	 * The last request that stopped a running machine: when it was sent (wall clock, us), and
	 * whether QEMU has yet to answer it. Once it has, any later resume has ended the stop.
	 */
	_Atomic int64_t asked_us;
	atomic_bool is_asked;
	/* When the machine was last resumed since the hold began, as far as the tool knows; 0:
	 * never. */
	_Atomic int64_t resumed_us;
	/* A bare stub's client counts one before it sends a request, and one after. */
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

/* True if a machine that a breakpoint has stopped stands still by us. */
static inline bool vms_hold_owns_hits(const struct vms_hold *hold)
{
	return atomic_load(&hold->has_breakpoints) && !atomic_load(&hold->halts);
}

/* True if the machine may stand still by a stop of ours. */
static inline bool vms_hold_may_be_ours(enum vms_hold_phase phase)
{
	return phase == VMS_HOLD_HELD || phase == VMS_HOLD_TAKEN || phase == VMS_HOLD_OWED;
}

/* Begins the next hold, in this phase. */
static inline void vms_hold_begin(struct vms_hold *hold, enum vms_hold_phase phase, uint64_t now_ns,
				  uint64_t limit_ns)
{
	uint64_t number = (atomic_load(&hold->word) >> 3) + 1;
	atomic_store(&hold->begin_ns, now_ns);
	atomic_store(&hold->limit_ns, limit_ns);
	atomic_store(&hold->resumed_us, 0);
	atomic_store(&hold->word, number << 3 | (uint64_t)phase);
}

static inline void vms_hold_note_request(struct vms_hold *hold, int64_t now_us)
{
	atomic_store(&hold->is_asked, true);
	atomic_store(&hold->asked_us, now_us);
}

static inline void vms_hold_note_answer(struct vms_hold *hold)
{
	atomic_store(&hold->is_asked, false);
}

/* Changes the phase. False, without a change, if the phase is not `from` any more. */
static inline bool vms_hold_change(struct vms_hold *hold, enum vms_hold_phase from,
				   enum vms_hold_phase to)
{
	uint64_t word = atomic_load(&hold->word);
	return vms_hold_phase(word) == from &&
	       atomic_compare_exchange_strong(&hold->word, &word, vms_hold_in_phase(word, to));
}

/* Changes the phase if it is one of a machine that does not stand still by us: NONE or LOOKING. */
static inline void vms_hold_change_unheld(struct vms_hold *hold, enum vms_hold_phase to)
{
	if (!vms_hold_change(hold, VMS_HOLD_NONE, to))
		vms_hold_change(hold, VMS_HOLD_LOOKING, to);
}
