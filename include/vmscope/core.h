/* SPDX-License-Identifier: MIT */
/* The content of a core file besides memory and registers, which are read as of any machine. */
#pragma once

#include <vmscope/machine.h>

VMS_BEGIN_DECLS

/* The format of the file. */
enum vms_core_format {
	VMS_CORE_ELF,	/* memory as PT_LOAD segments, registers as NT_PRSTATUS and QEMU's notes */
	VMS_CORE_VBOX,	/* the same with VirtualBox's notes */
	VMS_CORE_KDUMP, /* pages one by one, compressed: crash's and makedumpfile's format */
};

struct vms_core_note {
	const char *owner; /* "CORE", "QEMU", "VMCOREINFO" … */
	uint32_t type;
	uint64_t size; /* bytes of its content */
	/* Of its content. For a flattened file, in the file that it stands for. */
	uint64_t file_offset;
};

/* A range of guest-physical memory, and its place in the file. */
struct vms_core_segment {
	uint64_t pa;
	uint64_t va; /* the address at which the file says it is mapped; 0 if the file does not say
		      */
	uint64_t size;	    /* bytes of memory */
	uint64_t file_size; /* bytes of it in the file; the rest is zeros, or is not memory */
	uint64_t file_offset;
};

struct vms_core {
	const char *path;
	enum vms_core_format format;
	const char *variant; /* "QEMU dump-guest-memory", "VirtualBox 6", "makedumpfile, zstd" … */
	uint64_t file_size;  /* bytes, holes included */
	uint64_t disk_size;  /* bytes on the disk */
	GArray *notes;	     /* struct vms_core_note */
	GArray *segments;    /* struct vms_core_segment, as the file lists them; empty for kdump */
	uint64_t pages;	     /* kdump: pages in the file */
	uint64_t left_out;   /* bytes of memory that the file left out; they read as zeros */
	GPtrArray *damage;   /* char *: a line for each thing that is missing or inconsistent */
	/* struct vms_range: memory that could not be read at the dump, or was cut off since. */
	GArray *unreadable;
	GPtrArray *facts; /* char *: facts that its writer noted, as "key=value" */
};

/*
 * Returns the content of the core file, or NULL if the machine is not a core file. It is constant,
 * and the machine owns it. For any thread.
 */
const struct vms_core *vms_machine_core(struct vms_machine *machine);

VMS_END_DECLS
