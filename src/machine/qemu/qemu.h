/* SPDX-License-Identifier: MIT */
/*
 * A QEMU behind a QMP socket: what it tells of its machine, and the guest's memory in its process.
 * Registers and holds come from elsewhere: an engine embeds this as its first member and adds them
 * (stub.h: the gdb stub; machine/agent: the agent inside QEMU).
 */
#pragma once

#include "machine/engine.h"
#include "machine/host/identity.h"
#include "machine/qemu/qmp.h"
#include "machine/qemu/ram.h"
#include "machine/qemu/run_state.h"

/* vCPUs that are believed. */
#define VMS_QEMU_VCPUS_MAX 4096

struct vms_qemu {
	struct vms_machine machine;
	struct vms_qmp qmp;
	struct vms_ram ram;
	GStringChunk *strings; /* of info and ranges */
	unsigned *cpu_index;   /* what QEMU calls the n_vcpus that were there at first, ascending */
	bool told_registers;   /* logged that `info registers` is not understood */
	bool has_no_job;       /* there was none when `jobs` events had come */
	uint64_t jobs;
	/* The process at the other end of the QMP socket; nobody's where that is not seen. */
	struct vms_host_identity process;
};

/* What QEMU says of its machine at some moment. */
struct vms_qemu_condition {
	enum vms_run_state state;
	/* "a migration (active)": what is under way that must not be disturbed, or "". */
	char busy[64];
};

/*
 * Connects to the first of the QMP sockets (NULL-terminated, one at least) that is free, and fills
 * in a zeroed structure, but for the architecture. `pid` is 0 where it is not known otherwise. To
 * be closed in any case. Errors: as vms_machine_open_qmp.
 */
bool vms_qemu_open(struct vms_qemu *qemu, const char *const *addresses, pid_t pid, GError **error);
void vms_qemu_close(struct vms_qemu *qemu);

/* Asks for the machine's condition. Errors: those of vms_qmp_execute. */
bool vms_qemu_ask_condition(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error);
/*
 * The same, asking for no more than what events do not tell: a machine that runs, as far as they
 * have told, may have been stopped just now.
 */
bool vms_qemu_ask_changes(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error);
/* Asks for the run state alone. */
bool vms_qemu_ask_state(struct vms_qemu *qemu, enum vms_run_state *ret, GError **error);

/*
 * Lets a machine go on that a stop of ours has left in `state`: see vms_release_way. Errors: those
 * of vms_qmp_execute, UNSUPPORTED when QEMU refuses, as it does while it writes a dump.
 */
bool vms_qemu_cont(struct vms_qemu *qemu, enum vms_run_state state, GError **error);

/*
 * Finds out whether another client is connected to a monitor of this QEMU, who would see every stop
 * of the machine (watchers.c). A monitor on a terminal does not count: nobody can tell whether
 * somebody sits there. Errors: those of vms_qmp_execute.
 */
bool vms_qemu_find_watcher(struct vms_qemu *qemu, bool *found, GError **error);

/* What engines for a QEMU share of struct vms_engine. */
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
 * Those that the human monitor alone tells, of x86-64: segments, descriptor tables, debug
 * registers. Exact while the vCPU is held.
 */
bool vms_qemu_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error);
/*
 * What the human monitor tells of all registers, of x86-64: those above and the general ones, but
 * not K_GS_BASE. Of a vCPU that runs, it is of some moment. UNSUPPORTED where it is not understood.
 */
bool vms_qemu_monitor_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			   GError **error);

/* What the machine is, into `machine.info`, the vCPUs and the memory map (identify.c). */
bool vms_qemu_identify(struct vms_qemu *qemu, GError **error);
/* Places the guest's RAM in QEMU's memory; leaves `ram` empty where that cannot be. */
void vms_qemu_map_ram(struct vms_qemu *qemu);

/* Items that the human monitor tells (items.c). */
extern const struct vms_machine_item vms_qemu_items[];
extern const size_t vms_qemu_n_items;
