/* SPDX-License-Identifier: MIT */
/*
 * The sample report: where a guest spends its time. A report is a job that can be done again:
 * start, progress, stop, wait.
 *
 * All of this may be called from any thread.
 */
#pragma once

#include <vmscope/guest.h>
#include <vmscope/profile.h>
#include <vmscope/run_facts.h>

VMS_BEGIN_DECLS

typedef struct vms_sample_report vms_sample_report;

#define VMS_SAMPLE_INTERVAL_MIN_US 10
#define VMS_SAMPLE_INTERVAL_MAX_US 10000000

enum vms_sample_flags {
	VMS_SAMPLE_LEAF_FIRST = 1 << 0, /* trees begin with the leaf, callers below it */
};

enum vms_sample_state { VMS_SAMPLE_READY, VMS_SAMPLE_RUNNING, VMS_SAMPLE_STOPPING };

#define VMS_SAMPLE_PROGRESS_UNKNOWN (-1) /* an endless run */

/*
 * Called from the run's own thread about ten times a second: 0 to 99, or UNKNOWN in an endless
 * run; and 100 once when the report is ready (its state is READY then). The answer false
 * cancels the run. It may ask for everything and stop the run, but neither start nor wait for one,
 * nor drop the last reference.
 */
typedef bool (*vms_sample_progress)(int percent, void *data);

/*
 * A report on `machine`, sampled every `interval_us`. `guest` may be NULL: it is detected at
 * start then. One that is given is used until the machine is reset: the next start detects the
 * guest anew, and adds the same symbol files to it. Errors: INVALID_ARGUMENT (interval out of
 * range, unknown flags).
 */
struct vms_sample_report *vms_sample_report_new(struct vms_machine *machine,
						struct vms_guest *guest, uint64_t interval_us,
						unsigned flags, GError **error);
struct vms_sample_report *vms_sample_report_ref(struct vms_sample_report *report);
/* The last reference stops a run and waits for it. */
void vms_sample_report_unref(struct vms_sample_report *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_sample_report, vms_sample_report_unref)

/* Frames per stack, 1 to VMS_STACK_LIMIT, default 128. Errors: INVALID_ARGUMENT, INVALID_STATE. */
bool vms_sample_report_set_depth(struct vms_sample_report *report, unsigned depth, GError **error);

/*
 * Starts sampling for `duration_ns`, or until stopped if 0. `progress` may be NULL. What an
 * earlier run sampled is dropped. Errors: INVALID_STATE (not READY: nothing is changed), and
 * those of vms_guest_detect.
 */
bool vms_sample_report_start(struct vms_sample_report *report, uint64_t duration_ns,
			     vms_sample_progress progress, void *data, GError **error);
/*
 * Ends a run early; returns at once. The report is READY soon after: a machine that does not answer
 * is waited for no longer than a second, as at the end of a timed run. Errors: INVALID_STATE (not
 * RUNNING).
 */
bool vms_sample_report_stop(struct vms_sample_report *report, GError **error);
/*
 * Waits until the report is READY, or until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: without a
 * limit). True when it is READY, and `progress` was called for the last time. Not from `progress`:
 * there it is true at once.
 */
bool vms_sample_report_wait(struct vms_sample_report *report, uint64_t until_ns);

enum vms_sample_state vms_sample_report_state(struct vms_sample_report *report);
enum vms_sample_end vms_sample_report_end(struct vms_sample_report *report);
/* Why a run FAILED or the machine is GONE: owned by the report, or NULL. */
const GError *vms_sample_report_error(struct vms_sample_report *report);
uint64_t vms_sample_report_elapsed_ns(struct vms_sample_report *report);
/*
 * What the first failure of that kind said, and what helps, where it is known: newly allocated, or
 * NULL.
 */
char *vms_sample_report_reason(struct vms_sample_report *report, enum vms_sample_failure failure);
struct vms_guest *vms_sample_report_guest(struct vms_sample_report *report);
bool vms_sample_report_stats(struct vms_sample_report *report, unsigned vcpu,
			     struct vms_sample_stats *ret);
/* The facts of the last run, without items. While it goes on, they are those until now. */
struct vms_run_facts *vms_sample_report_facts(struct vms_sample_report *report);

enum vms_profile_flags {
	VMS_PROFILE_BY_ADDRESS = 1 << 0,  /* a node per address; else per function */
	VMS_PROFILE_MERGE_VCPUS = 1 << 1, /* one tree for all vCPUs; else one each */
};
/* The sampled trees with names. Errors: INVALID_STATE (not READY, or nothing was sampled). */
struct vms_profile *vms_sample_report_profile(struct vms_sample_report *report, unsigned flags,
					      GError **error);

VMS_END_DECLS
