/* SPDX-License-Identifier: MIT */
/* A QEMU with a gdb stub that is added through its QMP socket and removed in the end. */
#pragma once

#include "machine/qemu/gdb.h"
#include "machine/qemu/guard.h"
#include "machine/qemu/qemu.h"

struct vms_qemu_stub {
	struct vms_qemu qemu;
	struct vms_gdb gdb;
	struct vms_guard *guard; /* while there is a stub */

	bool holding;	  /* we have stopped the machine */
	bool user_paused; /* it was stopped already: nothing to release */
	uint64_t resumes; /* seen when it was found so */
	bool told_slow;	  /* logged that memory is read through the stub */
};

/* See vms_qemu_open. */
struct vms_machine *vms_qemu_stub_open(const char *const *addresses, pid_t pid, GError **error);

/* Adds the gdb stub and connects to it, which stops the machine (stub.c). */
bool vms_qemu_add_stub(struct vms_qemu_stub *stub, GError **error);
/* Closes the connection and removes the stub. */
bool vms_qemu_remove_stub(struct vms_qemu_stub *stub, GError **error);
