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

/*
 * Searches all RAM for the page, from `*pa` on, which is where to go on from afterwards: reads
 * as much as the machine has, so it is for when nothing else leads to a kernel. NULL at the end.
 */
char *vms_vmcoreinfo_scan(struct vms_machine *machine, uint64_t *pa);
