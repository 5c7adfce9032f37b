/* SPDX-License-Identifier: MIT */
/* ORC unwind tables (arch/x86/include/asm/orc_types.h of the kernel). */
#pragma once

#include "base/bytes.h"
#include "guest/unwind_info.h"

struct vms_linux;
struct vms_orc;

#define VMS_ORC_IP_SIZE	   4 /* bytes of an entry's address */
#define VMS_ORC_ENTRY_SIZE 6
/* A kernel has about one entry for 20 bytes of code: 1.3 million in that of a distribution. */
#define VMS_ORC_ENTRIES_LIMIT (8u << 20)

/* The layouts that ORC has had. */
enum vms_orc_layout {
	VMS_ORC_4_14, /* type:2 end:1; SP_INDIRECT adds first until 5.12, see below */
	VMS_ORC_6_3,  /* type:2 signal:1 end:1 */
	VMS_ORC_6_4,  /* type:3 signal:1 */
	VMS_ORC_7_1,  /* as before, with other numbers of registers */
};

/*
 * Makes a table of n entries, and sorts it. `ip` holds n s32, which lie at `ip_va` in the guest.
 * `entries` holds n times VMS_ORC_ENTRY_SIZE bytes. Both are copied. Errors: MALFORMED (no entry,
 * more than VMS_ORC_ENTRIES_LIMIT, or sizes that contradict each other).
 */
struct vms_orc *vms_orc_new(struct vms_bytes ip, uint64_t ip_va, struct vms_bytes entries,
			    enum vms_orc_layout layout, bool sp_indirect_adds_first,
			    GError **error);
void vms_orc_free(struct vms_orc *orc);
/*
 * Finds the entry that is valid at `pc`. False below the first entry. The last entry has no end:
 * the caller must know where the code ends. Any thread may call it.
 */
bool vms_orc_find(const struct vms_orc *orc, uint64_t pc, struct vms_orc_entry *ret);
