/* SPDX-License-Identifier: MIT */
/*
 * Address spaces: whose they are, and what is mapped where. Plain values: whoever knows one (a
 * guest, a process of the host, a file that was recorded) tells it to a symbolizer, mapping by
 * mapping, and is not asked any more.
 */
#pragma once

#include <vmscope/symbol.h>

VMS_BEGIN_DECLS

/* Address spaces are counted from 0. Besides these there is the kernel's, which holds in all of
 * them; and an address may be of one that nobody knows. */
#define VMS_KERNEL_SPACE (UINT32_MAX - 1)
#define VMS_NO_SPACE	 UINT32_MAX

#define VMS_COMM_SIZE 16

/* The process that an address space belongs to, by the name that it had then. */
struct vms_process {
	uint32_t pid;
	char comm[VMS_COMM_SIZE];
	unsigned index; /* the address space: counts from 0, in the order of first sight */
	bool is_idle;	/* the idle task of a CPU */
};

enum vms_mapping_kind {
	VMS_MAPPING_FILE,    /* a file; also anonymous memory, by its name */
	VMS_MAPPING_KERNEL,  /* code that the kernel has for ever: its image */
	VMS_MAPPING_MODULE,  /* a part of a kernel module */
	VMS_MAPPING_PROGRAM, /* code that the kernel has compiled: a BPF program */
};

/* What lies at some addresses. NULL or 0 where it is not known. */
struct vms_mapping {
	uint64_t start, end; /* the end is outside */
	uint64_t file;	     /* a number: the same is the same file, as long as it is there */
	/* What `start` is in the file, or in `symbols` where these are by address. */
	uint64_t offset;
	const char
		*name; /* the file's path, "[vdso]", "[anon]" …; of kernel code its symbols tell */
	const char *build_id; /* of the file, in hexadecimal digits */
	struct vms_symbol_table *symbols;
	enum vms_mapping_kind kind;
	uint64_t stamp; /* what whoever tells of it likes */
};

VMS_END_DECLS
