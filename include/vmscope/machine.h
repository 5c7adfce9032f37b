/* SPDX-License-Identifier: MIT */
/*
 * A machine: something with vCPUs, registers and memory. An engine reaches each kind of machine
 * (src/machine/<engine>/). Callers see only this interface.
 *
 * Threads: several threads may use a machine. Only the thread that holds a vCPU reads its
 * registers.
 */
#pragma once

#include <sys/types.h>
#include <vmscope/arch.h>
#include <vmscope/budget.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

typedef struct vms_machine vms_machine; /* the plain name is for g_autoptr */

#define VMS_ALL_VCPUS (-1)

/* ---- opening ---------------------------------------------------------- */

/*
 * Opens the machine of process `pid`: any that uses KVM (vms_machine_open_kvm), or a QEMU, through
 * the first free QMP socket that its command line and its open files name. QMP tells where memory
 * is. Registers and holds of other QEMUs come from the agent in it, if an agent answers (see
 * vms_machine_open_agent), else from a gdb stub, as those of a KVM process whose vCPUs cannot be
 * held; the log says why. Opening does not stop the guest. Errors: NOT_FOUND (no such process),
 * UNSUPPORTED (not QEMU, or no QMP socket), BUSY (the socket serves another client), PERMISSION,
 * TIMEOUT, PROTOCOL.
 */
struct vms_machine *vms_machine_open_pid(pid_t pid, GError **error);

/*
 * Opens the QEMU of process `pid` by its gdb stub, which has probes (flow.h), also if its vCPUs
 * could be held one by one. Errors: as above.
 */
struct vms_machine *vms_machine_open_stub(pid_t pid, GError **error);

/* Opens a QEMU by its QMP address: the path of a unix socket, or HOST:PORT. Errors: as above. */
struct vms_machine *vms_machine_open_qmp(const char *address, GError **error);

/*
 * Opens a QEMU that runs vmscope's agent, a plugin, by the path of the agent's socket. The agent
 * holds vCPUs one by one, without stopping the machine. The memory map comes from QMP. So the QEMU
 * must be a process of this host that this user may read, with a free QMP socket. If QEMU runs all
 * vCPUs in one thread, its gdb stub holds them, not the agent. Errors: as vms_machine_open_pid.
 */
struct vms_machine *vms_machine_open_agent(const char *path, GError **error);

/*
 * Opens any gdb remote stub by its address: the path of a unix socket, or HOST:PORT. A stub stops
 * its machine when a client connects. If the machine was running, it runs again when this returns.
 * A stub does not report whether the machine was running. It is assumed that it was, unless the
 * stub is QEMU's and its monitor reports something else. Errors: UNSUPPORTED (the stub does not
 * describe its registers, or an unknown architecture), BUSY (the stub serves another client),
 * TIMEOUT, CLOSED, PROTOCOL.
 */
struct vms_machine *vms_machine_open_gdb(const char *address, GError **error);

/* A range of guest-physical memory, and its address in the process that runs the machine. */
struct vms_ram_place {
	uint64_t pa, size, hva; /* bytes; size is not 0 */
};
/*
 * Opens the machine that process `pid` runs by KVM, whichever program it is. The guest's memory is
 * where `places` say, sorted by guest-physical address and not overlapping. If n is 0, it is found
 * out by what the process has mapped, and proved by the guest's page tables. vCPUs are held one by
 * one, by ptrace(2), for some microseconds each. Nothing is added to the process, and its owner
 * sees no stop. Only on x86-64. Errors: NOT_FOUND (no such process, or it runs no vCPU), PERMISSION
 * (this user may not trace it), BUSY (another program traces it), UNSUPPORTED (this host's KVM does
 * not give registers, the machine is a confidential one, or no memory map is proved), UNREADABLE
 * (there is no memory at those places), IO.
 */
struct vms_machine *vms_machine_open_kvm(pid_t pid, const struct vms_ram_place *places, size_t n,
					 GError **error);

struct vms_machine *vms_machine_ref(struct vms_machine *machine);
/* Dropping the last reference releases every vCPU, removes what was added to QEMU, and closes. */
void vms_machine_unref(struct vms_machine *machine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_machine, vms_machine_unref)

/*
 * Opens a core file as a machine that does not run. It reads files of vms_dump, of QEMU's
 * dump-guest-memory (ELF and kdump-compressed), of VirtualBox (formats 5, 6 and that of 2010), and
 * of Linux's /proc/vmcore and makedumpfile. A hold of it costs nothing. vms_machine_core returns
 * the rest of its content. Errors: NOT_FOUND, PERMISSION, IO, UNSUPPORTED (not a core file, an
 * unknown architecture), MALFORMED (with the offset in the file).
 */
struct vms_machine *vms_machine_open_core(const char *path, GError **error);

/* ---- discovery -------------------------------------------------------- */

struct vms_found_machine {
	pid_t pid;
	char *name;	   /* -name, else the executable's name */
	char *accelerator; /* "kvm", "tcg" … or NULL when unknown */
	unsigned vcpus;	   /* 0 when unknown */
	uint64_t memory;   /* bytes; 0 when unknown */
	char *qmp;	   /* address of its QMP socket, or NULL */
	char *agent;	   /* path of its agent's socket, or NULL */
	char *obstacle;	   /* why it cannot be opened; NULL if it can */
	char *uuid;	   /* -uuid, or NULL: libvirt gives each domain its own */
};

/*
 * Lists the virtual machines of this host: an array of struct vms_found_machine, which owns all of
 * them. It reads only /proc, and connects to no machine. Errors: IO.
 */
GArray *vms_machine_discover(GError **error);

/* ---- facts ------------------------------------------------------------ */

struct vms_machine_info {
	const char *name;
	const char *engine;	 /* "qemu", "agent", "gdb" … */
	const char *description; /* "QEMU 10.0.2, TCG, pc-i440fx-10.0" */
	const char *accelerator; /* "kvm", "tcg", or NULL when unknown */
	const char *agent;	 /* path of the agent's socket, or NULL */
	pid_t pid;		 /* of the process that runs the machine; 0 when unknown */
	bool is_core;		 /* it is a core file, which never runs */
	/* No monitor tells where its memory is: that was found out, and page tables prove it. */
	bool has_inferred_map;
};

enum vms_range_kind { VMS_RANGE_RAM, VMS_RANGE_ROM, VMS_RANGE_MMIO };

/* A contiguous range of guest-physical addresses. */
struct vms_range {
	uint64_t pa;
	uint64_t size; /* bytes */
	enum vms_range_kind kind;
	const char *name; /* of the RAM block, ROM or device at these addresses */
};

/* "ram", "rom" or "mmio". */
const char *vms_range_kind_name(enum vms_range_kind kind);
/* Compares two struct vms_range by address, for sorting. */
int vms_range_compare(const void *a, const void *b);

/* The machine owns all that these functions give. It stays while the machine is open. */
const struct vms_machine_info *vms_machine_info(struct vms_machine *machine);
/*
 * Returns what may be spent on interpreting what the machine holds: its guest's structures, its
 * disks, the files of its programs. The machine owns it.
 */
struct vms_budget *vms_machine_budget(struct vms_machine *machine);
/*
 * Sets another budget, before anything of the guest is read. Takes a reference. Without it, a
 * machine has a budget of its own, of 4 s and 5 % of a processor.
 */
void vms_machine_set_budget(struct vms_machine *machine, struct vms_budget *budget);
/* True if there can be probes in the machine (flow.h). */
bool vms_machine_has_probes(const struct vms_machine *machine);
const struct vms_arch *vms_machine_arch(struct vms_machine *machine);
unsigned vms_machine_vcpus(struct vms_machine *machine);
/* The host thread that runs a vCPU, or 0 when unknown. */
pid_t vms_machine_vcpu_thread(struct vms_machine *machine, unsigned vcpu);
/* The memory map, sorted, without overlaps. A gdb stub other than QEMU's has none: *n is 0. */
const struct vms_range *vms_machine_ranges(struct vms_machine *machine, size_t *n);
/*
 * True if memory is still where the ranges say. Memory may be plugged and unplugged while a machine
 * is open. It asks QEMU. Other machines cannot tell, so the result is true. Errors: INVALID_STATE
 * (memory has changed), and those of the connection. For any thread.
 */
bool vms_machine_check_ranges(struct vms_machine *machine, GError **error);
/*
 * Reads the map again, so that vms_machine_ranges and reads of memory know the memory of now. A
 * hold does so by itself after an event about changed memory. It takes a few milliseconds, and the
 * guest runs meanwhile. Errors: those of the connection. For any thread.
 */
bool vms_machine_update_ranges(struct vms_machine *machine, GError **error);
/*
 * True if the machine has the vCPUs that it had when it was opened. They may be plugged and
 * unplugged, and new ones cannot be used here. It asks QEMU. Other machines cannot tell, so the
 * result is true. Errors: INVALID_STATE (it has other vCPUs), and those of the connection. For any
 * thread.
 */
bool vms_machine_check_vcpus(struct vms_machine *machine, GError **error);

/*
 * The text of a Linux guest's VMCOREINFO, if it came with the machine (in a core file's note), else
 * NULL. The machine owns it.
 */
const char *vms_machine_vmcoreinfo(struct vms_machine *machine);

/* A text that only the machine's engine can give (interrupt controllers, devices …). */
struct vms_machine_item {
	const char *name;
	const char *help;
};
const struct vms_machine_item *vms_machine_items(struct vms_machine *machine, size_t *n);
/* Returns the items that any engine may have, `*n` of them. It needs no machine. */
const struct vms_machine_item *vms_machine_known_items(size_t *n);
/* Returns the text of an item, newly allocated. Errors: NOT_FOUND, and those of the engine. */
char *vms_machine_item_text(struct vms_machine *machine, const char *name, GError **error);

/* ---- holding ---------------------------------------------------------- */

/*
 * Allows to stop a machine that another client watches. A hold through QEMU's gdb stub stops the
 * whole machine. Every client of QEMU's monitors sees an event of it, and may take it for a pause
 * by its own user (libvirt does). So a hold is refused (WATCHED) while another client is connected
 * to a monitor, unless it is allowed here. Call it before the first hold.
 */
void vms_machine_allow_stop(struct vms_machine *machine, bool allow);

#define VMS_HOLD_LIMIT_NS UINT64_C(30000000000)
/*
 * Sets how long a hold may last, in ns; VMS_HOLD_LIMIT_NS by default. When the limit is reached,
 * the machine runs again: later reads of registers and the release fail (INVALID_STATE). Call it
 * before the hold. It applies to engines that stop the whole machine. The agent has a limit of its
 * own for holds of single vCPUs.
 */
void vms_machine_set_hold_limit(struct vms_machine *machine, uint64_t limit_ns);

/* True if the engine can hold one vCPU while the others run. */
bool vms_machine_holds_each(struct vms_machine *machine);

/*
 * Holds one vCPU, or all (VMS_ALL_VCPUS): it executes nothing until it is released. Holds nest. An
 * engine that can only hold all at once does so for any `vcpu`. If somebody else has paused the
 * machine, the hold succeeds, and the release leaves it paused. A watchdog releases the machine
 * when this process dies or is stopped. A migration that begins ends the hold, too: then the
 * release fails. A `stop` by somebody else in the very moment of a hold cannot be noticed: the
 * release undoes it.
 *
 * When it fails, nothing is held. Errors: TIMEOUT, CLOSED, PROTOCOL, NOT_FOUND (the vCPU was
 * unplugged), WAITING (vCPUs wait for one another all the time), NOT_NOW (a migration, a snapshot
 * or a backup of the machine is under way), WATCHED (see vms_machine_allow_stop), BUSY (another
 * program uses the gdb stub).
 */
bool vms_machine_hold(struct vms_machine *machine, int vcpu, GError **error);
/*
 * Holds all vCPUs. If they must not be stopped now (NOT_NOW, WATCHED, BUSY), it observes them while
 * they run: registers are of some moment, as far as QEMU's monitor knows them, and memory changes
 * while it is read. vms_machine_release of VMS_ALL_VCPUS ends it. Errors: as vms_machine_hold, if
 * the engine cannot observe a machine that runs.
 */
bool vms_machine_observe(struct vms_machine *machine, GError **error);
/*
 * Holds one vCPU briefly, to read what was read in its last hold: registers, and memory that was
 * prefetched. If the engine can do that, the vCPU waits only as long as this usually takes, and
 * goes on by itself when this process is late. After that, memory that was not prefetched cannot be
 * read, and the release fails with GONE_ON. Other engines, and all that hold all vCPUs at once,
 * make an ordinary hold of it. Errors: as vms_machine_hold.
 */
bool vms_machine_hold_briefly(struct vms_machine *machine, int vcpu, GError **error);
/*
 * Ends a hold. Errors: as vms_machine_hold; GONE_ON (see vms_machine_hold_briefly); INVALID_STATE
 * if the hold had ended before, because of the watchdog, the limit, a migration or somebody else:
 * what was read during the hold may be of several moments.
 */
bool vms_machine_release(struct vms_machine *machine, int vcpu, GError **error);

/*
 * True if the machine stands still for another reason than a hold of ours: its user paused it, or
 * it sleeps, or because of an I/O error or a panic. While the machine is held, the answer is that
 * of the moment in which the hold began.
 */
bool vms_machine_is_paused(struct vms_machine *machine);
/*
 * How long, in ns, the machine had been paused in all between its opening and `time_ns`
 * (CLOCK_MONOTONIC). The guest's clock has lost as much against the host's. 0 if the engine does
 * not know.
 */
uint64_t vms_machine_paused_ns(struct vms_machine *machine, uint64_t time_ns);

/* What has become of a machine since it was opened. */
enum vms_machine_end {
	VMS_MACHINE_GOES_ON,
	VMS_MACHINE_GONE, /* it has exited, or the connection to it broke */
};
enum vms_machine_end vms_machine_ended(struct vms_machine *machine);
/*
 * How often the machine was reset since it was opened, or 0 if the engine does not know. After a
 * reset, nothing that is known of the guest is valid: see vms_guest_is_stale.
 */
uint64_t vms_machine_resets(struct vms_machine *machine);

/*
 * The epoch: the number of one continuous hold, which is never used again. It is 0 while nothing is
 * held. In an epoch of the whole machine (VMS_ALL_VCPUS), all that was read remains true. In an
 * epoch of one vCPU, all that was read was true at some moment of the hold, but other vCPUs may run
 * and change what they share with this one. Only what they do not write to (its registers, usually
 * its stack) remains true. If the engine holds all vCPUs at once, every vCPU has the machine's
 * epoch.
 */
uint64_t vms_machine_epoch(struct vms_machine *machine, int vcpu);

/* ---- registers and memory --------------------------------------------- */

/*
 * Reads the registers of a held vCPU. A register that the engine does not know stays invalid.
 * Outside of 64-bit mode the segments are among them, if the engine knows them
 * (vms_arch_code_mode). Errors: INVALID_STATE (the vCPU is not held, or not any more), NOT_FOUND
 * (it was unplugged), GONE_ON (a brief hold has ended), CLOSED, PROTOCOL, TIMEOUT.
 */
bool vms_machine_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
		      GError **error);
/*
 * The same, quicker with some engines, but perhaps without registers that no walk of a stack needs
 * (CR8 of x86-64).
 */
bool vms_machine_stack_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error);

/*
 * Reads all registers that the engine knows, including those that are slow to read: on x86-64
 * segment limits, descriptor tables, debug registers. Errors: as above.
 */
bool vms_machine_all_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error);
/*
 * Adds registers of a vCPU that the engine does not know. (A core file that a Linux kernel wrote
 * has no control registers, but the important ones can be derived from the kernel's memory.) The
 * calls above give them from now on. Registers that are only assumed in `learnt` (vms_regs_assume)
 * remain unknown. Call it before other threads use the machine.
 */
void vms_machine_add_regs(struct vms_machine *machine, unsigned vcpu,
			  const struct vms_regs *learnt);

/*
 * Reads guest-physical memory, whether the machine is held or runs. False if any byte of the range
 * is neither RAM nor ROM, or the machine has gone; `buf` is undefined then. Memory that QEMU has in
 * a file can be read even after the machine has gone: see vms_machine_ended.
 */
bool vms_machine_read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size);
/*
 * True if the memory at `pa` can only be read by a gdb stub. That is slow, and stops a running
 * machine for a short time again and again.
 */
bool vms_machine_read_stops(struct vms_machine *machine, uint64_t pa);

/* A part of guest-physical memory, and the buffer to read it into. */
struct vms_phys_part {
	uint64_t pa;
	size_t size; /* bytes */
	void *buf;
};

/*
 * Reads several parts at once, if the engine can. Returns how many it has read, from the first on.
 * The buffers of the others are undefined: the caller reads them by vms_machine_read_phys.
 */
size_t vms_machine_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts,
			      size_t n);

/*
 * Finds the first part [*begin, *stop) of [pa, end) that may hold anything but zeros. Memory before
 * it was never written to, or was left out of a core file. If the engine does not know, the part is
 * all of [pa, end). False if there is no such part. While the machine runs, the answer may be
 * outdated at once.
 */
bool vms_machine_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			   uint64_t *stop);

VMS_END_DECLS
