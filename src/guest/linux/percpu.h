/* SPDX-License-Identifier: MIT */
/* Finds the copies of per-CPU variables. */
#pragma once

#include "guest/linux/linux.h"

/* Returns how many CPUs the guest can have, online or not: at most 8192, the largest NR_CPUS. */
unsigned vms_linux_cpus(struct vms_linux *guest);
/*
 * Gives what is added to the address of a per-CPU variable's symbol to get the copy of `cpu`. The
 * caller holds the guest's lock. False if it cannot be read.
 */
bool vms_linux_cpu_offset(struct vms_linux *guest, unsigned cpu, uint64_t *ret);
