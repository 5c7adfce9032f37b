/* SPDX-License-Identifier: MIT */
/*
 * VMCOREINFO: the kernel's description of itself for crash dumps, lines of KEY=VALUE
 * (kernel/vmcore_info.c, before 6.9 kernel/crash_core.c; Documentation/admin-guide/kdump/
 * vmcoreinfo.rst). It lies in a page of its own, which it does not fill, at its begin.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/memory.h>

/* What it begins with. */
#define VMS_VMCOREINFO_PREFIX "OSRELEASE="
/* Bytes that it may have: the kernel gives it a page. */
#define VMS_VMCOREINFO_SIZE 4096

/* The text that `page` begins with, newly allocated; NULL when it does not begin with one. */
char *vms_vmcoreinfo_text(struct vms_bytes page);
/* The value of a line as a number: "SYMBOL(init_uts_ns)", "KERNELOFFSET" hexadecimal … */
bool vms_vmcoreinfo_hex(const char *text, const char *key, uint64_t *ret);
/* … "OFFSET(list_head.next)", "SIZE(list_head)", "NUMBER(phys_base)" decimal, perhaps negative. */
bool vms_vmcoreinfo_number(const char *text, const char *key, int64_t *ret);
/* The value as text, newly allocated, or NULL: "OSRELEASE". */
char *vms_vmcoreinfo_string(const char *text, const char *key);

/* A search of all RAM for the page; begins as zeros. */
struct vms_vmcoreinfo_search {
	uint64_t pa;	  /* where to go on */
	uint64_t stopped; /* bytes that were read while the machine stood still for it */
	bool is_cut;	  /* more of these there were: they were left out */
};
/* How many of these bytes are read: some seconds of a gdb stub. */
#define VMS_VMCOREINFO_STOPPED_MAX (UINT64_C(64) << 20)

/*
 * Finds the next page: reads as much as the machine has, so it is for when nothing else leads to a
 * kernel. NULL at the end.
 */
char *vms_vmcoreinfo_scan(struct vms_machine *machine, struct vms_vmcoreinfo_search *search);
