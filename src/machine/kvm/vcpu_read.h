/* SPDX-License-Identifier: MIT */
/* Reads what a hold of a vCPU is for. Takes no lock and allocates nothing. */
#pragma once

#include "machine/kvm/holder.h"
#include <linux/kvm.h>

/*
 * Reads the registers of the slot's vCPU, with the begin of the page that has them, and what is
 * prefetched: all that is in the process by one call, which ends before the first block that is not
 * mapped. False, with errno, if not even the registers could be read.
 */
bool vms_kvm_read_state(pid_t pid, struct vms_kvm_slot *slot, struct kvm_run *page);
