/* SPDX-License-Identifier: MIT */
/*
 * The interface of the layouts of core files. A dump takes the machine's state and opens the sink
 * of a layout. Several threads write memory into the sink in units. The dump finishes the sink when
 * the guest runs again:
 *
 *   open     lays the file out, but neither reads nor writes a file. The guest is held, and the
 *            thread that holds it calls this.
 *   write    writes a unit of memory. Several threads call this at once. The guest may be held.
 *   finish   writes headers, notes and all that is known only now. The guest runs.
 *   free     is called in any case.
 *
 * write and finish may wait for the disk for ever, so they never read from the machine.
 */
#pragma once

#include "base/outfile.h"
#include "machine/core/core_arch.h"
#include <vmscope/dump.h>

#define VMS_DUMP_PAGE	    4096
#define VMS_DUMP_UNIT_MAX   (UINT32_C(1) << 20) /* bytes */
#define VMS_DUMP_UNIT_PAGES (VMS_DUMP_UNIT_MAX / VMS_DUMP_PAGE)

struct vms_dump_vcpu {
	struct vms_regs regs;
	uint32_t tid; /* for pr_pid of NT_PRSTATUS */
};

/* A run of kernel addresses that are contiguous in virtual and in physical memory. */
struct vms_dump_mapping {
	uint64_t va, pa, size;
};

/* The state of the machine while it is held. It does not change once it is taken. */
struct vms_dump_state {
	struct vms_machine *machine;
	struct vms_machine
		*source; /* has the memory to copy: the machine itself, or a copy of it */
	const struct vms_core_arch *arch;
	const struct vms_dump_options *options;
	/* RAM and ROM: struct vms_range, sorted, not overlapping, joined where they touch. */
	GArray *memory;
	GArray *vcpus;	  /* struct vms_dump_vcpu */
	GArray *mappings; /* struct vms_dump_mapping, by va: where `memory` is mapped */
	const struct vms_guest_info *guest; /* members that are not known are NULL */
	const char *vmcoreinfo;		    /* NULL if not known */
	uint64_t direct_map;		    /* va - pa of the kernel's direct map; 0 if not known */
	uint64_t bytes;			    /* size of `memory` */
	int64_t time;			    /* when the machine was held: seconds since 1970, UTC */
};

/*
 * A part of one range of `memory`. It does not cross a multiple of VMS_DUMP_UNIT_MAX. If a range
 * begins or ends within a page, so does its first or last unit.
 */
struct vms_dump_unit {
	uint64_t pa;
	size_t size;
	/* The bytes; those of zero pages are not set. NULL if all pages are zero. */
	const uint8_t *data;
	/*
	 * Only for a sink that writes whole pages: the first and the last page, if the unit has
	 * only a part of it and no range before has a part of it. It includes what later ranges
	 * have of that page. Else NULL.
	 */
	const uint8_t *edge[2];
	/*
	 * True for pages that hold nothing but zeros. [0] is the page that contains `pa`. All pages
	 * of a unit may be zero; each unit of `memory` is written exactly once all the same.
	 */
	bool zero[VMS_DUMP_UNIT_PAGES];
};

/* Facts that are known when the guest runs again. */
struct vms_dump_outcome {
	uint64_t held_ns;
	GArray *unreadable; /* struct vms_range, sorted, joined */
};

typedef struct vms_dump_sink vms_dump_sink;

/* A sink. Each layout has a structure of its own that begins with this one. */
struct vms_dump_sink {
	bool whole_pages; /* it writes whole pages of memory; see `edge` of a unit */
	bool is_slow;	  /* its write takes much longer than reading, even with a fast disk */
	bool (*write)(struct vms_dump_sink *sink, unsigned worker, const struct vms_dump_unit *unit,
		      GError **error);
	bool (*finish)(struct vms_dump_sink *sink, const struct vms_dump_outcome *outcome,
		       GError **error);
	void (*free)(struct vms_dump_sink *sink);
};

/*
 * Opens the sink of a layout. `state` and `file` must stay valid until it is freed. `workers`
 * threads write, numbered from 0. The sink owns a buffer of fixed size for each of them.
 */
typedef struct vms_dump_sink *vms_dump_open_sink(const struct vms_dump_state *state,
						 struct vms_outfile *file, unsigned workers,
						 GError **error);
vms_dump_open_sink vms_dump_open_elf;	/* elf.c: ELF and VBOX */
vms_dump_open_sink vms_dump_open_kdump; /* kdump.c */

static inline void vms_dump_sink_free(struct vms_dump_sink *sink)
{
	if (sink)
		sink->free(sink);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump_sink, vms_dump_sink_free)
