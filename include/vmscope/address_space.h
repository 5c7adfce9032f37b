/* SPDX-License-Identifier: MIT */
/*
 * Address spaces: which process each belongs to, and what is mapped where. These are plain values.
 * A guest, a process of the host or a recorded file adds its address spaces to a symbolizer,
 * mapping by mapping. The symbolizer never calls back.
 */
#pragma once

#include <vmscope/symbol.h>

VMS_BEGIN_DECLS

/* Address spaces of processes are counted from 0. */
#define VMS_KERNEL_SPACE (UINT32_MAX - 1) /* the kernel's, which is part of all of them */
#define VMS_NO_SPACE	 UINT32_MAX	  /* an address space that is not known */

#define VMS_COMM_SIZE 16

/* The process that an address space belongs to, with the name that it had when it was seen. */
struct vms_process {
	uint32_t pid;
	char comm[VMS_COMM_SIZE];
	unsigned index; /* its address space, counted from 0 in the order of first sight */
	bool is_idle;	/* it is the idle task of a CPU */
	/* Its container or service; NULL if it is in none, or that is not known. */
	const char *container;
};

enum vms_mapping_kind {
	VMS_MAPPING_FILE,    /* a file, or anonymous memory that has a name */
	VMS_MAPPING_KERNEL,  /* the kernel's image, which is never unloaded */
	VMS_MAPPING_MODULE,  /* a part of a kernel module */
	VMS_MAPPING_PROGRAM, /* code that the kernel has compiled, a BPF program */
};

struct vms_binary; /* the bytes of a mapped file; see src/symbol/binary.h */

/* What is mapped at a range of addresses. Members are NULL or 0 if they are not known. */
struct vms_mapping {
	uint64_t start, end; /* `end` is the first address after it */
	uint64_t file;	     /* a number that identifies the file while it exists */
	/* The offset of `start` in the file. If `symbols` are by address, its address there. */
	uint64_t offset;
	/* The file's path, "[vdso]", "[anon]" … For kernel code, `symbols` have the name. */
	const char *name;
	const char *build_id; /* of the file, in hexadecimal digits */
	struct vms_symbol_table *symbols;
	struct vms_binary *binary; /* the file, if its bytes can be read */
	enum vms_mapping_kind kind;
	uint64_t stamp; /* for use by the caller that adds the mapping */
};

VMS_END_DECLS
