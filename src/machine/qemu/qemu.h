/* SPDX-License-Identifier: MIT */
/*
 * A QEMU behind a QMP socket: what it tells of its machine, and the guest's memory in its process.
 * An engine embeds this as its first member, and adds registers and holds (stub.h: by the gdb stub;
 * machine/agent: by the agent inside QEMU).
 */
#pragma once

#include "machine/engine.h"
#include "machine/host/identity.h"
#include "machine/host/ram.h"
#include "machine/qemu/qmp.h"
#include "machine/qemu/run_state.h"

/* How many vCPUs a machine may have. */
#define VMS_QEMU_VCPUS_MAX 4096

struct vms_qemu {
	struct vms_machine machine;
	struct vms_qmp qmp;
	struct vms_qemu_map *map; /* the present one of `maps`; NULL: none. See vms_qemu_ram. */
	GPtrArray *maps;	  /* struct vms_qemu_map: whatever was the map since the opening */
	uint64_t followed_changes, followed_ns; /* events of memory, and time, of the last look */
	GStringChunk *strings;			/* of info */
	unsigned *cpu_index; /* QEMU's indices of the vCPUs at the opening, ascending */
	unsigned n_cpu_indices;
	struct vms_vcpu_state *vcpu_state; /* NULL: not looked for yet */
	bool told_registers; /* it was logged that `info registers` is not understood */
	bool has_no_job;     /* there was no job when there had been `jobs` events */
	uint64_t jobs;
	/* The process at the other end of the QMP socket; nobody if that is not known. */
	struct vms_host_identity process;
};

/* What QEMU says of its machine at some moment. */
struct vms_qemu_condition {
	enum vms_run_state state;
	/* What is under way and must not be disturbed, such as "a migration (active)"; or "". */
	char busy[64];
};

/*
 * Connects to the first free one of the QMP sockets (NULL-terminated, one at least), and fills in
 * `qemu`, which is zeroed. `pid` is 0 if it is not known. The caller closes `qemu` even if this
 * fails. Errors: as vms_machine_open_qmp.
 */
bool vms_qemu_open(struct vms_qemu *qemu, const char *const *addresses, pid_t pid, GError **error);
void vms_qemu_close(struct vms_qemu *qemu);

/* Asks for the machine's condition. Errors: those of vms_qmp_execute. */
bool vms_qemu_ask_condition(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error);
/* Looks whether a disk holds a snapshot, which can be loaded. Errors: those of vms_qmp_execute. */
bool vms_qemu_has_snapshot(struct vms_qemu *qemu, bool *ret, GError **error);
/*
 * Asks for the machine's condition, but only for what events do not tell. So the state may be
 * outdated: a machine may have been stopped just now whose event has not arrived.
 */
bool vms_qemu_ask_changes(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error);
/* True if no job is under way, by the events that have come. */
bool vms_qemu_knows_no_job(struct vms_qemu *qemu);
/* Asks what is under way, but only for what events do not tell. The state may be wrong. */
bool vms_qemu_ask_busy(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error);
/*
 * Takes the answer to a vms_qmp_ask of query-migrate. False if it has not come, or QEMU has refused
 * to answer. The state is not filled in.
 */
bool vms_qemu_take_migration(struct vms_qemu *qemu, struct vms_qemu_condition *ret);
/* Asks for the run state alone. */
bool vms_qemu_ask_state(struct vms_qemu *qemu, enum vms_run_state *ret, GError **error);

/*
 * Resumes a machine that a stop of ours has left in `state`: see vms_release_way. Errors: those of
 * vms_qmp_execute; UNSUPPORTED if QEMU refuses, as it does while it writes a dump.
 */
bool vms_qemu_cont(struct vms_qemu *qemu, enum vms_run_state state, GError **error);

/*
 * Finds out whether another client is connected to a monitor of this QEMU (other_clients.c). It
 * would see every stop of the machine. A monitor on a terminal does not count: nobody can tell
 * whether somebody sits there. Errors: those of vms_qmp_execute.
 */
bool vms_qemu_find_watcher(struct vms_qemu *qemu, bool *found, GError **error);

/* Functions of struct vms_engine that all engines for a QEMU share. */
bool vms_qemu_read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size);
size_t vms_qemu_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts,
			   size_t n);
void vms_qemu_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			uint64_t *stop);
char *vms_qemu_pause_reason(struct vms_machine *machine);
enum vms_machine_end vms_qemu_ended(struct vms_machine *machine);
uint64_t vms_qemu_resets(struct vms_machine *machine);
char *vms_qemu_item_text(struct vms_machine *machine, const char *name, GError **error);
/*
 * Adds the registers of x86-64 that only the human monitor tells: segments, descriptor tables,
 * debug registers. They are exact while the vCPU is held.
 */
bool vms_qemu_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error);
/*
 * Reads all registers of x86-64 that the human monitor tells: those above and the general ones, but
 * not K_GS_BASE. If the vCPU runs, they are of some moment. Errors: those of vms_qmp_execute;
 * UNSUPPORTED (the monitor's text is not understood).
 */
bool vms_qemu_monitor_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			   GError **error);
/*
 * Reads the wide registers of x86-64 that the human monitor tells. Errors: those of
 * vms_qmp_execute; UNSUPPORTED (the monitor's text is not understood).
 */
bool vms_qemu_wide_regs(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			GError **error);
/*
 * Adds the registers of x86-64 that the monitor does not tell either, such as STAR, if this QEMU
 * lets find them in its memory (vcpu_state.c). `regs` has the others. The vCPU is held, and QEMU
 * was asked for its registers in this hold: with KVM it has them only then.
 */
void vms_qemu_add_state_regs(struct vms_qemu *qemu, unsigned vcpu, struct vms_regs *regs);
/*
 * Finds out, once, where this QEMU has registers of x86-64 in its memory, which takes a few
 * milliseconds. False if it does not tell.
 */
bool vms_vcpu_state_find(struct vms_qemu *qemu);
/*
 * Proves that the general registers of all `n` vCPUs, without CR8, can be read from QEMU's memory:
 * `regs` has what QEMU has told of them in this hold. False if QEMU has other values there, or if
 * two vCPUs cannot be told apart. Only after vms_vcpu_state_find.
 */
bool vms_vcpu_state_prove(struct vms_qemu *qemu, const struct vms_regs *regs, unsigned n);
/* Reads them, by one system call. All vCPUs are held. False if that was not proved, or fails. */
bool vms_vcpu_state_read(struct vms_qemu *qemu, struct vms_regs *ret, unsigned n);
void vms_vcpu_state_free(struct vms_vcpu_state *state);

/* Fills in `machine.info`, the architecture and the vCPUs (identify.c). */
bool vms_qemu_identify(struct vms_qemu *qemu, GError **error);
/* A function of struct vms_engine (identify.c). */
bool vms_qemu_check_vcpus(struct vms_machine *machine, GError **error);

/* Reads the memory map, and finds the guest's RAM in QEMU's process (memory_map.c). */
void vms_qemu_open_map(struct vms_qemu *qemu);
void vms_qemu_close_map(struct vms_qemu *qemu);
/* The guest's RAM in QEMU's process; empty if that cannot be read. It stays until the close. */
const struct vms_ram *vms_qemu_ram(struct vms_qemu *qemu);
/* Functions of struct vms_engine. */
bool vms_qemu_check_ranges(struct vms_machine *machine, GError **error);
bool vms_qemu_update_ranges(struct vms_machine *machine, GError **error);
/*
 * Updates the map after events of memory that was plugged or unplugged, once a second at most. For
 * the begin of a hold, before anything stands still; under the machine's lock.
 */
void vms_qemu_follow_ranges(struct vms_qemu *qemu);

/* Items whose text comes from the human monitor (monitor_info.c). */
extern const struct vms_machine_item vms_qemu_items[];
extern const size_t vms_qemu_n_items;
