/* SPDX-License-Identifier: MIT */
/* Registers of x86-64 as KVM gives them (linux/kvm.h), as a struct vms_regs. */
#pragma once

#include <asm/kvm.h>
#include <vmscope/arch.h>

/*
 * The holder writes this to where the kernel stores the address of the local APIC, which is never
 * this: if it is there after a stop, nothing was stored.
 */
#define VMS_KVM_NOT_STORED UINT64_MAX

/* Gives all that KVM gives along with an exit. */
void vms_kvm_set_regs(const struct kvm_regs *regs, const struct kvm_sregs *sregs,
		      struct vms_regs *ret);
