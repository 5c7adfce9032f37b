/* SPDX-License-Identifier: MIT */
/*
 * What the layouts of core files have in common. A dump takes the machine's state, opens the
 * layout's sink, has several threads write memory into it in units, and finishes it when the guest
 * runs again:
 *
 *   open     while the guest is held, by the thread that holds it: lays the file out, and neither
 *            reads nor writes a file
 *   write    a unit of memory, from several threads at once, whether the guest is held or runs
 *   finish   headers, notes, all that is known only now; the guest runs
 *   free     in any case
 *
 * Where the sink writes, the disk may take for ever: it reads nothing of the machine there.
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
	uint32_t tid; /* pr_pid */
};

/* A run of kernel addresses, contiguous in virtual and in physical memory. */
struct vms_dump_mapping {
	uint64_t va, pa, size;
};

/* The machine while it is held; constant once it is taken. */
struct vms_dump_state {
	struct vms_machine *machine;
	struct vms_machine *source; /* whose memory is copied: the machine's, or a copy of it */
	const struct vms_core_arch *arch;
	const struct vms_dump_options *options;
	/* RAM and ROM: struct vms_range, sorted, not overlapping, joined where they touch. */
	GArray *memory;
	GArray *vcpus;	  /* struct vms_dump_vcpu */
	GArray *mappings; /* struct vms_dump_mapping, by va: what is mapped of `memory` */
	const struct vms_guest_info *guest; /* whose members are NULL where nothing is known */
	const char *vmcoreinfo;		    /* NULL: not known */
	/* va - pa of the kernel's direct map; 0: none is known. */
	uint64_t direct_map;
	uint64_t bytes; /* of `memory` */
	int64_t time;	/* when the machine was held: seconds since 1970, UTC */
};

/*
 * Up to VMS_DUMP_UNIT_MAX bytes of one range of `memory`, that do not cross a multiple of that.
 * Where a range begins or ends within a page, so does its first or last unit.
 */
struct vms_dump_unit {
	uint64_t pa;
	size_t size;
	/* Those of zero pages are not set. NULL: all are zeros. */
	const uint8_t *data;
	/*
	 * For a sink of whole pages, where the unit has a part of its first or last page only, and
	 * no range before has a part of it: all of that page, with what the ranges behind have of
	 * it. Else NULL.
	 */
	const uint8_t *edge[2];
	/*
	 * Which pages hold nothing but zeros: [0] is the page that `pa` lies in. A unit may consist
	 * of such pages alone; each unit of `memory` is written, exactly once.
	 */
	bool zero[VMS_DUMP_UNIT_PAGES];
};

/* What is known when the guest runs again. */
struct vms_dump_outcome {
	uint64_t held_ns;
	GArray *unreadable; /* struct vms_range, sorted, joined */
};

typedef struct vms_dump_sink vms_dump_sink;

/* A layout, embedded by its sinks as their first member. */
struct vms_dump_sink {
	bool whole_pages; /* of memory are written: see `edge` of a unit */
	bool is_slow;	  /* writing takes much longer than reading, whatever the disk does */
	bool (*write)(struct vms_dump_sink *sink, unsigned worker, const struct vms_dump_unit *unit,
		      GError **error);
	bool (*finish)(struct vms_dump_sink *sink, const struct vms_dump_outcome *outcome,
		       GError **error);
	void (*free)(struct vms_dump_sink *sink);
};

/*
 * Opens the sink of a layout. `state` and `file` stay valid until it is freed. `workers`: how many
 * threads write, numbered from 0: buffers for each are the sink's, of fixed size.
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
