/* SPDX-License-Identifier: MIT */
/* Loads the ORC unwind tables of a kernel and of its modules. */
#pragma once

#include "guest/linux/linux.h"

/* The kernel's own table; NULL where it has none (the log tells), or where it is missing. */
struct vms_orc *vms_linux_orc_load(struct vms_linux *guest);
/*
 * A module's table: its address and number of entries come from struct module. NULL where there is
 * none, or with the reason in the log.
 */
struct vms_orc *vms_linux_orc_load_module(struct vms_linux *guest, uint64_t ip_va,
					  uint64_t entries_va, uint64_t n);
