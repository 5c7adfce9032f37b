/* SPDX-License-Identifier: MIT */
/* What the unwinder asks of a Linux guest: see guest/unwind_info.h. */
#pragma once

#include "guest/linux/linux.h"

bool vms_linux_is_text(const void *system, uint64_t pc);
bool vms_linux_is_entry_text(const void *system, uint64_t pc);
uint64_t vms_linux_pt_regs_record(const void *system);
bool vms_linux_has_orc(const void *system);
bool vms_linux_orc_at(const void *system, uint64_t pc, struct vms_orc_entry *ret);
