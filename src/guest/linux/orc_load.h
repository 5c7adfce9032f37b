/* SPDX-License-Identifier: MIT */
/* Loads the ORC unwind tables of a kernel and of its modules. */
#pragma once

#include "guest/linux/linux.h"

/*
 * Loads the kernel's own table. NULL if the kernel has none, as the log tells, or if it cannot be
 * read: then vms_linux.missing says why.
 */
struct vms_orc *vms_linux_orc_load(struct vms_linux *guest);
/*
 * Loads a module's table. Its addresses and its number of entries come from struct module. NULL if
 * it has no entries or cannot be read; the log tells why.
 */
struct vms_orc *vms_linux_orc_load_module(struct vms_linux *guest, uint64_t ip_va,
					  uint64_t entries_va, uint64_t n);
