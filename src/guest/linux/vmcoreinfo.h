/* SPDX-License-Identifier: MIT */
/*
 * VMCOREINFO is the kernel's description of itself for crash dumps: lines of KEY=VALUE
 * (kernel/vmcore_info.c, before 6.9 kernel/crash_core.c; Documentation/admin-guide/kdump/
 * vmcoreinfo.rst). It lies at the begin of a page of its own, and does not fill that page.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/memory.h>

/* The text that it begins with. */
#define VMS_VMCOREINFO_PREFIX "OSRELEASE="
/* Largest size in bytes: the kernel gives it a page. */
#define VMS_VMCOREINFO_SIZE 4096

/* Returns the VMCOREINFO that `page` begins with, newly allocated, or NULL. */
char *vms_vmcoreinfo_text(struct vms_bytes page);
/* Gives a hexadecimal value, as "SYMBOL(init_uts_ns)" and "KERNELOFFSET" have. */
bool vms_vmcoreinfo_hex(const char *text, const char *key, uint64_t *ret);
/*
 * Gives a decimal value, which may be negative, as "OFFSET(list_head.next)", "SIZE(list_head)" and
 * "NUMBER(phys_base)" have.
 */
bool vms_vmcoreinfo_number(const char *text, const char *key, int64_t *ret);
/* Returns a value as text, as "OSRELEASE" has, newly allocated, or NULL. */
char *vms_vmcoreinfo_string(const char *text, const char *key);

/* A search of all RAM for VMCOREINFO. It begins with all members 0. */
struct vms_vmcoreinfo_search {
	uint64_t pa;	  /* where to continue */
	uint64_t stopped; /* bytes that were read while the machine stood still for that */
	bool is_cut;	  /* the search ended early: `stopped` reached its limit */
};
/* Limit of `stopped`. A gdb stub reads this much in some seconds. */
#define VMS_VMCOREINFO_STOPPED_MAX (UINT64_C(64) << 20)

/*
 * Finds the next VMCOREINFO, newly allocated; NULL at the end. It may read all memory of the
 * machine. So use it only if nothing else leads to a kernel.
 */
char *vms_vmcoreinfo_scan(struct vms_machine *machine, struct vms_vmcoreinfo_search *search);
