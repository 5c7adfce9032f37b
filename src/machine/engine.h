/* SPDX-License-Identifier: MIT */
/* What an engine implements, and what all machines have. */
#pragma once

#include "probe/wide_registers.h"
#include <stdatomic.h>
#include <vmscope/core.h>

/*
 * One call is made at a time, under the machine's lock. There are two exceptions. Functions
 * that say so are called without a lock. If `holds_each` is set, functions about one vCPU are
 * called under a lock of that vCPU: those of different vCPUs run at the same time, and beside all
 * others.
 */
struct vms_engine {
	const char *name;
	bool holds_each; /* it can hold one vCPU while the others run */
	/*
	 * Holds `vcpu`: one vCPU if `holds_each`, else VMS_ALL_VCPUS. Calls are never nested. It
	 * fails with WAITING if the vCPU seems to wait for another one that is held: it can be held
	 * as soon as that one has been released.
	 */
	bool (*hold)(struct vms_machine *machine, int vcpu, GError **error);
	bool (*release)(struct vms_machine *machine, int vcpu, GError **error);
	/*
	 * Optional, called without a lock; only with `holds_each`. Called before all vCPUs are
	 * held, for what cannot be asked for meanwhile.
	 */
	void (*before_holding_all)(struct vms_machine *machine);
	/*
	 * Optional. Called when a hold has failed with NOT_NOW, WATCHED or BUSY: see
	 * vms_machine_observe. `release` ends it.
	 */
	bool (*observe)(struct vms_machine *machine, GError **error);
	/*
	 * Optional, both or none; only with `holds_each`. `hold_briefly` begins a hold that may end
	 * by itself. `pin` makes it last until it is released. `pin` returns false if the vCPU has
	 * gone on already; `release` fails with GONE_ON then.
	 */
	bool (*hold_briefly)(struct vms_machine *machine, int vcpu, GError **error);
	bool (*pin)(struct vms_machine *machine, int vcpu);
	/* Optional, called without a lock; only with `holds_each`: see vms_machine_last_hold_ns. */
	bool (*last_hold_ns)(struct vms_machine *machine, unsigned vcpu, uint64_t *ret);
	bool (*regs)(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
		     GError **error);
	/* Optional: the same, quicker, but perhaps without some that no walk of a stack needs. */
	bool (*stack_regs)(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			   GError **error);
	/* Optional. Adds the registers that are slow to read to `ret`, which holds the others. */
	bool (*system_regs)(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error);
	/* Optional. Reads all wide registers that it can: see vms_machine_wide_regs. */
	bool (*wide_regs)(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			  GError **error);
	/*
	 * Optional. Reads memory without a lock; any number of threads call it at once. It is tried
	 * first. Memory that it cannot read is left to `read_phys`.
	 */
	bool (*read_ram)(struct vms_machine *machine, uint64_t pa, void *buf, size_t size);
	/* Optional, called without a lock: see vms_machine_read_parts. */
	size_t (*read_parts)(struct vms_machine *machine, const struct vms_phys_part *parts,
			     size_t n);
	/*
	 * Optional, both or none; only with `holds_each`. `prefetch` asks for VMS_PREFETCH_SIZE
	 * bytes at `pa` to come along with the next hold of this vCPU. `prefetched` gives the bytes
	 * at `pa` that came along with the present hold, or NULL. They are valid until it ends.
	 */
	void (*prefetch)(struct vms_machine *machine, unsigned vcpu, uint64_t pa);
	const void *(*prefetched)(struct vms_machine *machine, unsigned vcpu, uint64_t pa);
	/*
	 * Optional, called without a lock. Finds the first part of [pa, end) that may hold anything
	 * but zeros; *begin is `end` if there is none. See vms_machine_next_data.
	 */
	void (*next_data)(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			  uint64_t *stop);
	/* Optional if there is `read_ram`. */
	bool (*read_phys)(struct vms_machine *machine, uint64_t pa, void *buf, size_t size);
	/*
	 * The most bytes to ask `read_phys` for at once, where it makes a running machine stand
	 * still meanwhile; 0 where it does not.
	 */
	size_t held_read_max;
	/* Optional, both or none: see vms_machine_check_ranges and vms_machine_update_ranges. */
	bool (*check_ranges)(struct vms_machine *machine, GError **error);
	bool (*update_ranges)(struct vms_machine *machine, GError **error);
	/* Optional: see vms_machine_check_vcpus. */
	bool (*check_vcpus)(struct vms_machine *machine, GError **error);
	/* The next four are called without a lock, at any time. */
	bool (*is_paused)(struct vms_machine *machine);
	/* Optional: see vms_machine_paused_ns. */
	uint64_t (*paused_ns)(struct vms_machine *machine, uint64_t time_ns);
	enum vms_machine_end (*ended)(struct vms_machine *machine);
	/* Optional: see vms_machine_resets. */
	uint64_t (*resets)(struct vms_machine *machine);
	/* Optional: see vms_machine_pause_reason. */
	char *(*pause_reason)(struct vms_machine *machine);
	const struct vms_probe_engine *probes; /* optional: see machine/probes.h */
	/* Called for names of `items` only: see vms_machine_item_text. */
	char *(*item_text)(struct vms_machine *machine, const char *name, GError **error);
	/* Optional. Ends threads that use the machine's lock. Called before `close`. */
	void (*end_threads)(struct vms_machine *machine);
	/* Releases, removes what was added to the machine, and frees `machine`. */
	void (*close)(struct vms_machine *machine);
};

/* The size of a block of prefetched memory, in bytes. Its address is a multiple of this. */
#define VMS_PREFETCH_SIZE 256

/*
 * Sets when to give up waiting for the machine, in ns of CLOCK_MONOTONIC; 0: never. What still
 * waits then fails with TIMEOUT. For any thread.
 */
void vms_machine_give_up_at(struct vms_machine *machine, uint64_t time_ns);
/*
 * Why somebody else's stop lasts, and what helps: newly allocated, or NULL if the machine runs, or
 * that is not known. It may ask the machine.
 */
char *vms_machine_pause_reason(struct vms_machine *machine);

/*
 * The earliest time at which the held machine may have stopped, in ns of CLOCK_MONOTONIC; 0: not
 * known.
 */
uint64_t vms_machine_held_from_ns(const struct vms_machine *machine);

/*
 * How long the last hold of a vCPU has lasted, in ns, as the engine measured it. False if it does
 * not tell. Call it after the release.
 */
bool vms_machine_last_hold_ns(struct vms_machine *machine, int vcpu, uint64_t *ret);

/*
 * Lets the thread that holds all vCPUs run before all others of the host until it has released
 * them: for an engine that finds that a hold lasts. That thread may have the machine's lock, and
 * wait for a processor. For any thread; without that lock.
 */
void vms_machine_hurry_holder(struct vms_machine *machine);

/* Makes a held vCPU stay held until it is released. False if it has gone on already. */
bool vms_machine_pin(struct vms_machine *machine, unsigned vcpu);

/*
 * Reads the wide registers of a held vCPU. Those that the engine cannot read have size 0. Errors:
 * INVALID_STATE (it is not held), UNSUPPORTED (the engine can read none), and others.
 */
bool vms_machine_wide_regs(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			   GError **error);

/* See `prefetch` and `prefetched` above. If the engine has neither, nothing is prefetched. */
void vms_machine_prefetch(struct vms_machine *machine, unsigned vcpu, uint64_t pa);
const void *vms_machine_prefetched(struct vms_machine *machine, unsigned vcpu, uint64_t pa);

/* The hold of one vCPU, if the engine holds each by itself, or of all vCPUs. Kept by holds.c. */
struct vms_hold_state {
	GMutex lock;	  /* taken for every call of the engine about this vCPU */
	unsigned depth;	  /* of nested holds */
	bool is_brief;	  /* the hold may end by itself */
	bool is_observed; /* it is not held but observed, and runs */
	bool is_urgent;	  /* who holds it runs before others, and had `usual_nice` before */
	int usual_nice;
	_Atomic uint64_t epoch; /* of the hold, or 0 */
};

/* The thread that holds all vCPUs. Kept by holds.c. */
struct vms_holder {
	GMutex lock;
	pid_t tid;	 /* 0: no thread holds them */
	bool is_hurried; /* see vms_machine_hurry_holder */
};

/* Registers that the engine gave, and the same with what it was asked for then. */
struct vms_seen_regs {
	struct vms_regs given, all;
};

/* The part of a machine that all engines share; an engine embeds it as its first member. */
struct vms_machine {
	const struct vms_engine *engine;
	const struct vms_arch *arch;
	struct vms_machine_info info; /* strings owned by the engine */
	unsigned n_vcpus;
	pid_t *vcpu_threads; /* n_vcpus of them, or NULL */
	/*
	 * struct vms_range, sorted. `update_ranges` may replace it atomically; the old one stays
	 * until the machine is closed.
	 */
	GArray *ranges;
	const struct vms_machine_item *items;
	size_t n_items;
	const struct vms_core *core; /* of a core file, owned by the engine; else NULL */
	const char *vmcoreinfo;	     /* text, owned by the engine, or NULL */
	uint64_t hold_limit_ns;
	_Atomic uint64_t give_up_ns; /* for the engine's streams: see vms_machine_give_up_at */
	bool may_stop;		     /* see vms_machine_allow_stop */
	/* When the last hold began to stop the machine; 0: the engine does not tell. */
	uint64_t held_from_ns;

	/* Kept by machine.c, holds.c and registers.c. */
	gatomicrefcount refs;
	struct vms_budget *budget; /* NULL until it is first asked for */
	GMutex lock;		      /* taken last; see struct vms_engine */
	struct vms_hold_state *holds; /* one per vCPU if `holds_each`, else one */
	struct vms_holder holder;     /* unless `holds_each` */
	_Atomic uint64_t last_epoch;
	struct vms_regs *learnt; /* by vCPU, see vms_machine_add_regs; NULL: none */
	atomic_bool told_mode;	 /* it was logged that a vCPU's mode is not known */
	/* By vCPU, behind its lock: the vCPU when last seen outside of 64-bit mode; NULL: never. */
	struct vms_seen_regs **seen;
};

/* An engine calls it once, as soon as arch, n_vcpus and ranges are set. */
void vms_machine_init(struct vms_machine *machine, const struct vms_engine *engine);

/*
 * True if all of [pa, pa + size) is RAM or ROM, or there is no memory map. To read a device's
 * memory may have effects.
 */
bool vms_machine_is_memory(struct vms_machine *machine, uint64_t pa, size_t size);
