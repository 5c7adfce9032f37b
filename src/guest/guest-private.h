/* SPDX-License-Identifier: MIT */
/* The members of a guest, for the files of src/guest/ and for tests with a guest of their own. */
#pragma once

#include "guest/operations.h"

struct vms_guest {
	gatomicrefcount refs;
	struct vms_machine *machine;
	const struct vms_guest_ops *ops;   /* of the operating system that is looked for */
	void *system;			   /* what `ops` found, owned; NULL if it found nothing */
	struct vms_guest_info info;	   /* strings owned by `system` */
	char *why;			   /* see vms_guest_why */
	struct vms_symbolizer *symbolizer; /* the one of `system`, or one without a kernel */
	uint64_t looked_ns;		   /* when the last detection ended */
	uint64_t look_took_ns;		   /* how long it took */
	uint64_t resets;		   /* the machine's resets that this guest knows of */
};

/* True if a system was recognised that has this operation. */
#define VMS_GUEST_HAS(guest, operation) ((guest)->system && (guest)->ops->operation)

/* As vms_guest_detect, for one system. The library need not know the system. */
struct vms_guest *vms_guest_detect_system(struct vms_machine *machine,
					  const struct vms_guest_ops *ops, GError **error);

/* ---- a guest that changes, for follower.c ----------------------------- */

/*
 * True once after each reset of the machine. vms_guest_is_stale is false then, although what is
 * known of the guest is outdated. For a job that goes on after resets.
 */
bool vms_guest_take_reset(struct vms_guest *guest);
/*
 * Looks again at a machine in which nothing was recognised: it may have booted since. True if an
 * operating system was recognised now. However often it is called, it spends at most a tenth of the
 * time. No other thread may use the guest meanwhile. It may return false without an error.
 */
bool vms_guest_detect_again(struct vms_guest *guest, GError **error);
/* Detects what runs in the same machine now. The new guest has no symbol files. */
struct vms_guest *vms_guest_detect_other(const struct vms_guest *guest, GError **error);
/*
 * True if everything that kernels have was understood. A kernel that boots may tell more later:
 * see vms_guest_detect_other and vms_guest_exchange.
 */
bool vms_guest_is_complete(const struct vms_guest *guest);
/*
 * Exchanges what two guests of the same machine know of it. Symbol files stay where they are. What
 * `guest` has returned before is owned by `other` then. No other thread may use the two meanwhile.
 */
void vms_guest_exchange(struct vms_guest *guest, struct vms_guest *other);
/*
 * A kernel that boots changes its page tables. If the kernel's own are not known, this holds a vCPU
 * for a moment, and reads through the page tables that it uses from now on. Errors: those of the
 * machine.
 */
bool vms_guest_follow_tables(struct vms_guest *guest, GError **error);
