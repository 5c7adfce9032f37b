/* SPDX-License-Identifier: MIT */
/*
 * The watchdog's process: what it knows, and what its parts have in common. It takes no lock and
 * allocates nothing (base/side_process.h): it uses system calls and fixed text only. It
 * does not parse JSON either: it finds QEMU's answers by the ids of the commands.
 */
#pragma once

#include "machine/host/identity.h"
#include "machine/qemu/hold_record.h"
#include <sys/socket.h>

/* How long to wait for an answer before checking whether QEMU is still alive. */
#define VMS_GUARD_ANSWER_MS 1000
/* How long to wait before trying again what QEMU refused, or when it cannot be reached. */
#define VMS_GUARD_RETRY_MS 250

/* What the process needs. All of it stays valid after the fork. */
struct vms_guard {
	struct vms_record *record;	  /* shared with the holder */
	struct vms_host_identity process; /* the QEMU's; its pidfd is borrowed */
	/* Sockets, borrowed; -1: not used. `stub`: to QEMU's stub, as the holder had it then. */
	int qmp, gdb, stub;
	int holder_end; /* the holder's connection to this process, which brings `stub` later */
	char quoted_label[96];						   /* "\"LABEL\"" */
	char close_fd[160], pass_fd[160], remove_stub[320], add_stub[512]; /* QMP commands */
	struct sockaddr_storage address;				   /* of the QMP socket */
	socklen_t address_size;
};

static inline bool vms_guard_has_qemu_gone(const struct vms_guard *guard)
{
	return guard->process.pid && !vms_host_identity_is_alive(&guard->process);
}
