/* SPDX-License-Identifier: MIT */
/* Per-CPU variables: where each CPU has its own copy. */
#pragma once

#include "guest/linux/linux.h"

/* How many CPUs the guest can have, some perhaps offline; at most 8192, the largest NR_CPUS. */
unsigned vms_linux_cpus(struct vms_linux *guest);
/* What is added to a per-CPU variable's symbol to get the copy of `cpu`. Under the guest's lock. */
bool vms_linux_cpu_offset(struct vms_linux *guest, unsigned cpu, uint64_t *ret);
