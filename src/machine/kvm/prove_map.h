/* SPDX-License-Identifier: MIT */
/* Proves a guess of a machine's memory map by what its vCPUs use. */
#pragma once

#include "machine/host/ram.h"
#include "machine/kvm/areas.h"
#include <vmscope/arch.h>

enum vms_kvm_proof {
	VMS_KVM_WRONG,	  /* what a vCPU uses is not where the guess says */
	VMS_KVM_NOTHING,  /* the vCPU tells nothing: it has no page tables yet */
	VMS_KVM_POSSIBLE, /* nothing is wrong, but nothing that it uses is in one of the parts */
	VMS_KVM_PROVED,
};

/*
 * Checks a guess by the registers of a vCPU. Its page tables must lead to code at its program
 * counter, and to memory at its stack and its tables of interrupts and segments. The part below
 * 4 GiB, and the part above, is proved if a page table, code, or a stack with return addresses is
 * in it. `ram` has the process's memory by its own addresses: its "guest-physical" addresses are
 * those of the process. The bits 1 and 2 of *parts are set for parts that are proved.
 */
enum vms_kvm_proof vms_kvm_prove(const struct vms_kvm_guess *guess, const struct vms_ram *ram,
				 const struct vms_arch *arch, const struct vms_regs *regs,
				 unsigned *parts);
/* The parts that a guess has: bit 1 below 4 GiB, bit 2 above. */
unsigned vms_kvm_guess_parts(const struct vms_kvm_guess *guess);
