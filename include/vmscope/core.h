/* SPDX-License-Identifier: MIT */
/* What a core file tells besides memory and registers, which are read as any machine's. */
#pragma once

#include <vmscope/machine.h>

VMS_BEGIN_DECLS

/* How the file is laid out. */
enum vms_core_format {
	VMS_CORE_ELF,	/* memory as PT_LOAD segments, registers as NT_PRSTATUS and QEMU's notes */
	VMS_CORE_VBOX,	/* the same with VirtualBox's notes */
	VMS_CORE_KDUMP, /* pages one by one, compressed: crash's and makedumpfile's format */
};

struct vms_core_note {
	const char *owner; /* "CORE", "QEMU", "VMCOREINFO" … */
	uint32_t type;
	uint64_t size;	      /* bytes of its content */
	uint64_t file_offset; /* of its content; in a flattened file, of the file that it stands for
			       */
};

/* A range of guest-physical memory and where in the file it lies. */
struct vms_core_segment {
	uint64_t pa;
	uint64_t va;	    /* where the file says that it is mapped; 0: not told */
	uint64_t size;	    /* bytes of memory */
	uint64_t file_size; /* bytes of them in the file; the rest is zeros or not memory at all */
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
	uint64_t
		left_out; /* bytes of memory that the file says it leaves out: they read as zeros */
	GPtrArray *damage; /* char *: what is missing or contradicts itself, one line each */
	/* struct vms_range: memory that could not be read when it was dumped, or was cut off since
	 */
	GArray *unreadable;
	GPtrArray *facts; /* char *: what its writer noted, "key=value" */
};

/* Of a machine that is a core file, else NULL. Owned by the machine, and constant. For any thread.
 */
const struct vms_core *vms_machine_core(struct vms_machine *machine);

VMS_END_DECLS
