/* SPDX-License-Identifier: MIT */
/* What a report holds, for the files of src/coverage/. */
#pragma once

#include "coverage/functions.h"
#include "coverage/lines.h"
#include "coverage/link.h"
#include <vmscope/coverage.h>

struct vms_coverage_report {
	gatomicrefcount refs;
	GStringChunk *names;
	GArray *functions; /* struct vms_covered_function */
	GArray *blocks;	   /* struct vms_covered_block, by address */
	struct vms_coverage_totals totals;
	struct vms_covered_lines *lines; /* NULL: none are known */
};

/*
 * Makes the report of what has run of the first `n_blocks` blocks. `functions` may be used no more
 * but to be freed.
 */
struct vms_coverage_report *vms_coverage_report_new(const struct vms_coverage_link *link,
						    uint32_t n_blocks,
						    struct vms_coverage_functions *functions);
/* Adds the source lines that the guest's symbol files tell. */
void vms_coverage_report_add_lines(struct vms_coverage_report *report, struct vms_guest *guest);
