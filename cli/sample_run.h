/* SPDX-License-Identifier: MIT */
/* Runs a sample report while the main thread waits for it. */
#pragma once

#include "session.h"

/*
 * Samples for `duration_ns`, or until a signal if that is 0. A signal ends the run, and keeps its
 * results. Errors: those of vms_sample_report_start.
 */
bool run_sample_report(struct vms_sample_report *report, uint64_t duration_ns, bool show_progress,
		       GError **error);
