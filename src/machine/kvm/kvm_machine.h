/* SPDX-License-Identifier: MIT */
/* What the files of the KVM engine share. */
#pragma once

#include "machine/kvm/holder.h"
#include "machine/kvm/vcpus.h"
#include "machine/qemu/qemu.h"
#include <stdatomic.h>

/* Blocks of memory that come along with a hold, by guest-physical address. */
struct vms_kvm_prefetch_list {
	unsigned n;
	uint64_t pa[VMS_KVM_MAX_PREFETCH];
};

/* The last hold of a vCPU. */
struct vms_kvm_hold {
	uint32_t broken; /* the slot's count when the hold began */
	bool torn;	 /* more was wanted of a brief hold than had been read */
	/* The owner of a QEMU has paused the machine: nothing is stopped, QEMU tells the registers.
	 */
	bool is_paused;
	uint64_t resumes;				      /* QMP's count when the hold began */
	struct vms_kvm_prefetch_list prefetch, next_prefetch; /* of this hold, and the next one */
};

struct vms_kvm_machine {
	/* Without QMP only `machine`, `process` and `strings` of it are used. */
	struct vms_qemu qemu;
	bool has_qmp;
	struct vms_ram ram; /* without QMP */
	/*
	 * /proc/PID/mem, opened before the vCPUs were listed; -1: not open. It stays that of the
	 * program that had them then, also if the process executes another one.
	 */
	int memory;
	GArray *vcpus;		       /* struct vms_kvm_vcpu, by the machine's index */
	struct vms_kvm_holder *holder; /* a slot per vCPU, and one to find out about threads */
	GArray *files;		       /* int: descriptors that the holder has, too */
	struct vms_kvm_hold *holds;    /* by vCPU, behind its lock */
	atomic_uint n_held;
	/*
	 * What QEMU's monitor told of registers that KVM does not give along, by vCPU; NULL:
	 * nothing. Behind the machine's lock.
	 */
	struct vms_regs *told;
	uint64_t told_ns; /* when */
};

extern const struct vms_engine vms_kvm_engine, vms_kvm_qemu_engine;

/* The guest's memory in the process. */
const struct vms_ram *vms_kvm_ram(struct vms_kvm_machine *kvm);
/* Closes and frees a machine, also one whose opening has failed. */
void vms_kvm_close(struct vms_machine *machine);
