/* SPDX-License-Identifier: MIT */
/*
 * A machine: something with vCPUs, registers and memory. Each kind of machine
 * is reached by an engine (src/machine/<engine>/); callers see only this.
 *
 * Threads: a machine may be used from several threads. Registers are asked for
 * by the thread that holds the vCPU.
 */
#pragma once

#include <sys/types.h>
#include <vmscope/arch.h>
#include <vmscope/error.h>

G_BEGIN_DECLS

typedef struct vms_machine vms_machine; /* the plain name is for g_autoptr */

#define VMS_ALL_VCPUS (-1)

/* ---- opening ---------------------------------------------------------- */

/*
 * Opens the QEMU of process `pid`, through the first free QMP socket that its command line
 * and its open files lead to. Registers and holds come from the agent in it, if there is one that
 * answers (see vms_machine_open_agent), else from a gdb stub. The guest runs on, except for the
 * moment in which it is first held. Errors: NOT_FOUND (no such process), UNSUPPORTED (not
 * QEMU, or no QMP socket), BUSY (the socket or the stub serves somebody else),
 * PERMISSION, TIMEOUT, PROTOCOL.
 */
struct vms_machine *vms_machine_open_pid(pid_t pid, GError **error);

/* The same by QMP address: the path of a unix socket, or HOST:PORT. */
struct vms_machine *vms_machine_open_qmp(const char *address, GError **error);

/*
 * Opens the QEMU that has an agent, a plugin of vmscope, by the path of the agent's socket. Its
 * vCPUs are held one by one, without stopping the machine. The memory map comes from QMP: the
 * process must be one of this host that may be looked at, with a QMP socket that is free. Where
 * QEMU runs several vCPUs in one thread they are held by its gdb stub all the same. Errors: as
 * vms_machine_open_pid.
 */
struct vms_machine *vms_machine_open_agent(const char *path, GError **error);

/*
 * Opens any gdb remote stub: the path of a unix socket, or HOST:PORT. A stub
 * stops its machine while a client connects; if the machine was running it runs
 * again when this returns. A stub does not tell whether the machine was running:
 * it is taken to have been.
 */
struct vms_machine *vms_machine_open_gdb(const char *address, GError **error);

struct vms_machine *vms_machine_ref(struct vms_machine *machine);
/* The last reference releases every vCPU, removes what was added, and closes. */
void vms_machine_unref(struct vms_machine *machine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_machine, vms_machine_unref)

/*
 * Opens a core file as a machine that does not run: those of vms_dump, of QEMU's
 * dump-guest-memory (ELF and kdump-compressed), VirtualBox (formats 5, 6 and that of 2010), and
 * Linux's /proc/vmcore and makedumpfile. Its vCPUs are held without being asked to; what else the
 * file tells, vms_machine_core has. Errors: NOT_FOUND, PERMISSION, IO, UNSUPPORTED (no core file,
 * an unknown architecture), MALFORMED (with the offset in the file).
 */
struct vms_machine *vms_machine_open_core(const char *path, GError **error);

/* ---- discovering ------------------------------------------------------ */

struct vms_found_machine {
	pid_t pid;
	char *name;	   /* -name, else the executable's name */
	char *accelerator; /* "kvm", "tcg" … or NULL when unknown */
	unsigned vcpus;	   /* 0 when unknown */
	uint64_t memory;   /* bytes; 0 when unknown */
	char *qmp;	   /* address of its QMP socket, or NULL */
	char *agent;	   /* path of its agent's socket, or NULL */
	char *obstacle;	   /* why it cannot be looked at, or NULL when it can */
};

/*
 * Every virtual machine of this host, as an array of struct vms_found_machine *
 * that frees its elements. Asks no machine anything: only /proc is read.
 */
GPtrArray *vms_machine_discover(GError **error);

/* ---- facts ------------------------------------------------------------ */

struct vms_machine_info {
	const char *name;
	const char *engine;	 /* "qemu", "agent", "gdb" … */
	const char *description; /* "QEMU 10.0.2, TCG, pc-i440fx-10.0" */
	const char *accelerator; /* "kvm", "tcg", or NULL when unknown */
	const char *agent;	 /* path of the socket of QEMU's agent, or NULL */
	pid_t pid;		 /* 0 when unknown */
	bool is_core;		 /* a file: it does not run, and never will */
};

enum vms_range_kind { VMS_RANGE_RAM, VMS_RANGE_ROM, VMS_RANGE_MMIO };

/* A contiguous range of guest-physical addresses. */
struct vms_range {
	uint64_t pa;
	uint64_t size; /* bytes */
	enum vms_range_kind kind;
	const char *name; /* who answers there: RAM block, ROM, device */
};

/* "ram", "rom" or "mmio". */
const char *vms_range_kind_name(enum vms_range_kind kind);
/* Compares two struct vms_range by address, for sorting. */
int vms_range_compare(const void *a, const void *b);

/* Owned by the machine, constant while it is open. */
const struct vms_machine_info *vms_machine_info(struct vms_machine *machine);
const struct vms_arch *vms_machine_arch(struct vms_machine *machine);
unsigned vms_machine_vcpus(struct vms_machine *machine);
/* The host thread that runs a vCPU, or 0 when unknown. */
pid_t vms_machine_vcpu_thread(struct vms_machine *machine, unsigned vcpu);
/* Sorted, not overlapping. Behind a gdb stub that is not QEMU's the map is unknown: *n is 0. */
const struct vms_range *vms_machine_ranges(struct vms_machine *machine, size_t *n);

/*
 * The text of a Linux guest's VMCOREINFO where it came with the machine (a core file's note), else
 * NULL. Owned by the machine.
 */
const char *vms_machine_vmcoreinfo(struct vms_machine *machine);

/* Items that only this engine can tell (interrupt controllers, devices …). */
struct vms_machine_item {
	const char *name;
	const char *help;
};
const struct vms_machine_item *vms_machine_items(struct vms_machine *machine, size_t *n);
/* Those that any engine can tell, without a machine. */
const struct vms_machine_item *vms_machine_known_items(size_t *n);
/* Text of an item, newly allocated. Errors: NOT_FOUND and what the engine says. */
char *vms_machine_item_text(struct vms_machine *machine, const char *name, GError **error);

/* ---- holding ---------------------------------------------------------- */

/*
 * A hold through QEMU's gdb stub stops the whole machine: an event for every client of QEMU's
 * monitors, which may take it for its user's own pause (libvirt does). So it is refused while
 * another client is connected to one, unless it is allowed here. To be set before the first hold.
 */
void vms_machine_allow_stop(struct vms_machine *machine, bool allow);

#define VMS_HOLD_LIMIT_NS UINT64_C(30000000000)
/*
 * How long a hold may last, in ns; VMS_HOLD_LIMIT_NS unless it is set. Past it the machine goes on:
 * what is asked of it then, and its release, fails. To be set before the hold. It is in force where
 * the whole machine is stopped; the agent limits holds of single vCPUs itself.
 */
void vms_machine_set_hold_limit(struct vms_machine *machine, uint64_t limit_ns);

/* Can the engine hold one vCPU while the others run? */
bool vms_machine_holds_each(struct vms_machine *machine);

/*
 * Holds one vCPU (or VMS_ALL_VCPUS): it executes nothing until released. Holds
 * nest. An engine that can only hold all at once does so for any `vcpu`. On a
 * machine that is paused already a hold succeeds and release leaves it paused.
 * A watchdog releases the machine when this process dies or is stopped, and when a migration of it
 * begins it is released, too: release tells that.
 * Somebody who pauses it in the very moment of a hold is not noticed: release
 * resumes it.
 * Errors: TIMEOUT, CLOSED, PROTOCOL, NOT_FOUND (the vCPU was unplugged), WAITING (vCPUs wait for
 * one another all the time), NOT_NOW (a migration, a snapshot or a backup of it is under way),
 * WATCHED (see vms_machine_allow_stop), BUSY (another program has its gdb stub); nothing is held
 * then.
 */
bool vms_machine_hold(struct vms_machine *machine, int vcpu, GError **error);
/*
 * Holds all vCPUs, or where they must not be stopped now (NOT_NOW, WATCHED) looks at them while
 * they run on: registers are those of some moment, as far as QEMU's monitor knows them, and memory
 * changes while it is read. For who can do with that. Ended by vms_machine_release of
 * VMS_ALL_VCPUS. Errors: as vms_machine_hold, where nothing can be seen without a hold.
 */
bool vms_machine_observe(struct vms_machine *machine, GError **error);
/*
 * Holds one vCPU to look at it as one has looked before: its registers, and memory that was asked
 * for in its last hold. Where the engine can, such a vCPU waits no longer than that usually takes:
 * when this process is late it goes on by itself. Memory that did not come along cannot be read
 * then, and release tells it by GONE_ON. Where all are held at once, and elsewhere, it is a
 * hold like others. Errors: as vms_machine_hold.
 */
bool vms_machine_glance(struct vms_machine *machine, int vcpu, GError **error);
/*
 * Errors: as hold, and INVALID_STATE when the watchdog had released the machine, or the vCPU,
 * meanwhile: what was read during the hold may be torn.
 */
bool vms_machine_release(struct vms_machine *machine, int vcpu, GError **error);

/*
 * Does the machine stand still by somebody else's doing (its user, an I/O error, a panic, sleep)?
 * Of a held machine it is as of the hold.
 */
bool vms_machine_is_paused(struct vms_machine *machine);
/*
 * For how long, in ns, the machine had been paused at `time_ns` (CLOCK_MONOTONIC), since it was
 * opened: what the guest's clock is behind the host's. 0 where the engine cannot tell.
 */
uint64_t vms_machine_paused_ns(struct vms_machine *machine, uint64_t time_ns);

/* Why a machine does not go on as it was opened. */
enum vms_machine_end {
	VMS_MACHINE_GOES_ON,
	VMS_MACHINE_GONE,  /* exited, or the connection to it broke */
	VMS_MACHINE_RESET, /* rebooted since it was opened: what was learnt of its guest is void */
};
enum vms_machine_end vms_machine_ended(struct vms_machine *machine);
/* How often it was reset since it was opened, as far as the engine can tell. */
uint64_t vms_machine_resets(struct vms_machine *machine);

/*
 * A number that stands for one continuous hold, never used again; 0 while it is not held. Of the
 * whole machine (VMS_ALL_VCPUS): what was read under a number stays true under it. Of one vCPU:
 * what was read is as of some moment of this hold. Only what no other vCPU writes to (its
 * registers, usually its stack) stays true; the others may run, and change what they share with it.
 * Where all are held at once, every vCPU has the machine's.
 */
uint64_t vms_machine_epoch(struct vms_machine *machine, int vcpu);

/* ---- registers and memory --------------------------------------------- */

/*
 * Registers of a held vCPU. Outside of 64-bit mode with its segments, where the engine knows them
 * (see vms_arch_code_mode). Errors: INVALID_STATE when not held; CLOSED, PROTOCOL; GONE_ON when it
 * was only glanced at.
 */
bool vms_machine_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
		      GError **error);

/*
 * The same with all registers that the engine knows, those included that are slow to ask for: on
 * x86-64 segment limits, descriptor tables, debug registers. What cannot be told stays invalid.
 */
bool vms_machine_all_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error);
/*
 * Adds what was learnt of a vCPU's registers from elsewhere (a core file of a Linux kernel has no
 * control registers; the kernel's own memory tells them). From now on the calls above give these
 * where the engine does not know better. Call it before other threads use the machine.
 */
void vms_machine_add_regs(struct vms_machine *machine, unsigned vcpu,
			  const struct vms_regs *learnt);

/*
 * Reads guest-physical memory; works held or running. False when any byte of
 * the range is not RAM or ROM, or the machine has gone (memory that QEMU has in a file stays
 * readable even then: vms_machine_ended tells). `buf` is undefined then.
 */
bool vms_machine_read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size);

/* A piece of guest-physical memory, and where to it is read. */
struct vms_phys_part {
	uint64_t pa;
	size_t size; /* bytes */
	void *buf;
};

/*
 * Reads several parts in one go, where the engine can: how many were read, from the first on. The
 * others are left for vms_machine_read_phys, their buffers undefined.
 */
size_t vms_machine_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts,
			      size_t n);

/*
 * The first part [*begin, *stop) of [pa, end) that may hold anything but zeros: what lies before
 * is memory that nobody has ever written to, or was left out of a core file. Where the engine
 * cannot tell, it is all of [pa, end). False when nothing is left: all zeros. Hold the machine for
 * an answer that stays true.
 */
bool vms_machine_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			   uint64_t *stop);

G_END_DECLS
