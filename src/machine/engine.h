/* SPDX-License-Identifier: MIT */
/* What an engine implements. */
#pragma once

#include <stdatomic.h>
#include <vmscope/core.h>

/*
 * Calls are made one at a time, but for what says that it needs no lock, and where `holds_each`:
 * then hold, release and regs of different vCPUs are called at once, and at once with all else.
 */
struct vms_engine {
	const char *name;
	bool holds_each;
	/*
	 * vcpu is VMS_ALL_VCPUS, or one vCPU when holds_each. Never called nested. WAITING: it
	 * seems to wait for another one that is held, and may be held when those have been let go.
	 */
	bool (*hold)(struct vms_machine *machine, int vcpu, GError **error);
	bool (*release)(struct vms_machine *machine, int vcpu, GError **error);
	/*
	 * Optional: in place of a hold that gave NOT_NOW or WATCHED, see vms_machine_observe. It
	 * is ended by `release`.
	 */
	bool (*observe)(struct vms_machine *machine, GError **error);
	/*
	 * Optional, both or none, where `holds_each`: holds a vCPU that may go on by itself; and
	 * makes it stay until it is released: false if it has gone on, and release gives GONE_ON
	 * then.
	 */
	bool (*glance)(struct vms_machine *machine, int vcpu, GError **error);
	bool (*stay)(struct vms_machine *machine, int vcpu);
	bool (*regs)(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
		     GError **error);
	/*
	 * Optional: the registers of `regs` and those that are slow to ask for; `ret` holds the
	 * former when it is called.
	 */
	bool (*system_regs)(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error);
	/*
	 * Optional: reads memory in a way that needs no lock, from any number of threads at once.
	 * Tried before read_phys; what it cannot read, that one may.
	 */
	bool (*read_ram)(struct vms_machine *machine, uint64_t pa, void *buf, size_t size);
	/* Optional, and as it: see vms_machine_read_parts. */
	size_t (*read_parts)(struct vms_machine *machine, const struct vms_phys_part *parts,
			     size_t n);
	/*
	 * Optional, both or none, where `holds_each`: adds VMS_EXPECTED_SIZE bytes at `pa` to what
	 * is likely to be read in the next hold of this vCPU, so that they come along with it; and
	 * gives such as came along with the one that goes on, until it ends, or NULL.
	 */
	void (*expect)(struct vms_machine *machine, unsigned vcpu, uint64_t pa);
	const void *(*expected)(struct vms_machine *machine, unsigned vcpu, uint64_t pa);
	/*
	 * Optional, from any thread: the first part of [pa, end) that may hold anything but zeros;
	 * *begin == end where there is none. See vms_machine_next_data.
	 */
	void (*next_data)(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			  uint64_t *stop);
	/* Optional with read_ram. */
	bool (*read_phys)(struct vms_machine *machine, uint64_t pa, void *buf, size_t size);
	/* The next four are called without a lock, at any time. */
	bool (*is_paused)(struct vms_machine *machine);
	/* Optional: see vms_machine_paused_ns. */
	uint64_t (*paused_ns)(struct vms_machine *machine, uint64_t time_ns);
	enum vms_machine_end (*ended)(struct vms_machine *machine);
	/* Optional: see vms_machine_resets. */
	uint64_t (*resets)(struct vms_machine *machine);
	char *(*item_text)(struct vms_machine *machine, const char *name, GError **error);
	/* Optional: ends threads that use the machine's lock, before all else. */
	void (*end_threads)(struct vms_machine *machine);
	/* Releases, removes what was added, frees what the engine allocated in `machine`. */
	void (*close)(struct vms_machine *machine);
};

/* Of a piece of memory that is expected to be read; its address is a multiple of it. */
#define VMS_EXPECTED_SIZE 256

/* When the machine, which is held, was stopped at the earliest (CLOCK_MONOTONIC); 0: not known. */
uint64_t vms_machine_held_from_ns(const struct vms_machine *machine);

/* Sees to it that a vCPU which is held stays so until it is released. False: it has gone on. */
bool vms_machine_stay(struct vms_machine *machine, unsigned vcpu);

/* See `expect` and `expected` above; nothing and NULL where the engine has them not. */
void vms_machine_expect(struct vms_machine *machine, unsigned vcpu, uint64_t pa);
const void *vms_machine_expected(struct vms_machine *machine, unsigned vcpu, uint64_t pa);

/* What machine.c knows of a vCPU that is held by itself, or of all that are held together. */
struct vms_hold_state {
	GMutex lock;		/* held while the engine is asked to hold or release this vCPU */
	unsigned depth;		/* of nested holds */
	bool is_glance;		/* it may go on by itself */
	bool is_observed;	/* it is not held, and runs on */
	_Atomic uint64_t epoch; /* of the hold, or 0 */
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
	GArray *ranges;	     /* struct vms_range, sorted */
	const struct vms_machine_item *items;
	size_t n_items;
	const struct vms_core *core; /* of a core file, owned by the engine; else NULL */
	const char *vmcoreinfo;	     /* text, owned by the engine, or NULL */
	uint64_t hold_limit_ns;
	bool may_stop; /* see vms_machine_allow_stop */
	uint64_t
		held_from_ns; /* when the last hold began to stop it; 0: the engine does not tell */

	/* Kept by machine.c. */
	gatomicrefcount refs;
	GMutex lock; /* taken last; held in all calls, but those of one vCPU where `holds_each` */
	struct vms_hold_state *holds; /* by vCPU; [0] alone for all-at-once engines */
	_Atomic uint64_t last_epoch;
	struct vms_regs *learnt; /* n_vcpus register files that a guest has added to, or NULL */
	atomic_bool told_mode;	 /* that a vCPU's mode is not known */
	/* By vCPU, behind its lock: what was last seen outside of 64-bit mode; NULL: nothing. */
	struct vms_seen_regs **seen;
};

/* To be called once by an engine when arch, n_vcpus and ranges are set. */
void vms_machine_init(struct vms_machine *machine, const struct vms_engine *engine);

/*
 * Is all of [pa, pa + size) RAM or ROM, as far as the map is known? Reading devices may have
 * effects.
 */
bool vms_machine_is_memory(struct vms_machine *machine, uint64_t pa, size_t size);
