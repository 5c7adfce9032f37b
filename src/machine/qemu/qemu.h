/* SPDX-License-Identifier: MIT */
/* The engine for QEMU: a QMP socket, the gdb stub that is added through it, and QEMU's memory. */
#pragma once

#include "machine/engine.h"
#include "machine/qemu/gdb.h"
#include "machine/qemu/guard.h"
#include "machine/qemu/qmp.h"
#include "machine/qemu/ram.h"

struct vms_qemu {
	struct vms_machine machine;
	struct vms_qmp qmp;
	struct vms_gdb gdb;
	struct vms_ram ram;
	struct vms_guard *guard; /* while there is a stub */
	GStringChunk *strings;	 /* of info and ranges */

	bool holding;	     /* we have stopped the machine */
	bool user_paused;    /* it was stopped already: nothing to release */
	uint64_t resumes;    /* seen when it was found so */
	bool told_slow;	     /* logged that memory is read through the stub */
	bool told_registers; /* logged that `info registers` is not understood */
};

/* Opens a QEMU by its QMP socket. `pid` is 0 where it is not known otherwise. */
struct vms_machine *vms_qemu_open(const char *address, pid_t pid, GError **error);

/* What the machine is, into `machine.info`, the vCPU threads and the memory map (identify.c). */
bool vms_qemu_identify(struct vms_qemu *qemu, GError **error);
/* Places the guest's RAM in QEMU's memory; leaves `ram` empty where that cannot be. */
void vms_qemu_map_ram(struct vms_qemu *qemu);

/* Adds the gdb stub and connects to it, which stops the machine (stub.c). */
bool vms_qemu_add_stub(struct vms_qemu *qemu, GError **error);
/* Closes the connection and removes the stub. */
bool vms_qemu_remove_stub(struct vms_qemu *qemu, GError **error);

/* Items that the human monitor tells (items.c). */
extern const struct vms_machine_item vms_qemu_items[];
extern const size_t vms_qemu_n_items;
char *vms_qemu_item_text(struct vms_machine *machine, const char *name, GError **error);
