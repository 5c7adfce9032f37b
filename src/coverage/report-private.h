/* SPDX-License-Identifier: MIT */
/* The content of a report, for the files of src/coverage/. */
#pragma once

#include "base/texts.h"
#include "coverage/functions.h"
#include "coverage/lines.h"
#include "coverage/link.h"
#include <vmscope/coverage.h>

struct vms_coverage_report {
	gatomicrefcount refs;
	struct vms_texts *names;
	GArray *functions; /* struct vms_covered_function */
	GArray *blocks;	   /* struct vms_covered_block, by address */
	struct vms_coverage_totals totals;
	struct vms_covered_lines *lines; /* NULL if not known */
};

/*
 * Makes the report of the first `n_blocks` blocks. After this `functions` may only be freed.
 */
struct vms_coverage_report *vms_coverage_report_new(const struct vms_coverage_link *link,
						    uint32_t n_blocks,
						    struct vms_coverage_functions *functions);
/* Adds source lines, by the guest's symbol files. */
void vms_coverage_report_add_lines(struct vms_coverage_report *report, struct vms_guest *guest);
