/* SPDX-License-Identifier: MIT */
/*
 * The sample report: where a guest spends its time. A report is a job that can be started several
 * times: start, progress, stop, wait.
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
 * Called from the run's own thread about ten times a second. `percent` is 0 to 99, or UNKNOWN in an
 * endless run. It is called once with 100 when the report is READY. If it returns false, the run is
 * cancelled. It may read the report and stop the run. It must not start a run, wait for one, or
 * drop the last reference.
 */
typedef bool (*vms_sample_progress)(int percent, void *data);

/*
 * Makes a report on `machine`, which is sampled every `interval_us`. If `guest` is NULL, each start
 * detects it. Otherwise `guest` is used until the machine is reset. Then the next start detects the
 * guest again, and adds the same symbol files to it. Errors: INVALID_ARGUMENT (the interval is out
 * of range, or a flag is unknown).
 */
struct vms_sample_report *vms_sample_report_new(struct vms_machine *machine,
						struct vms_guest *guest, uint64_t interval_us,
						unsigned flags, GError **error);
struct vms_sample_report *vms_sample_report_ref(struct vms_sample_report *report);
/* Dropping the last reference stops a run and waits for its end. */
void vms_sample_report_unref(struct vms_sample_report *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_sample_report, vms_sample_report_unref)

/*
 * Sets the most frames per stack, 1 to VMS_STACK_LIMIT. The default is VMS_STACK_DEFAULT. Errors:
 * INVALID_ARGUMENT, INVALID_STATE (not READY).
 */
bool vms_sample_report_set_depth(struct vms_sample_report *report, unsigned depth, GError **error);

/*
 * Starts sampling for `duration_ns`, or until it is stopped if that is 0. `progress` may be NULL.
 * Drops the samples of an earlier run. Errors: INVALID_STATE (not READY; nothing is changed), and
 * those of vms_guest_detect.
 */
bool vms_sample_report_start(struct vms_sample_report *report, uint64_t duration_ns,
			     vms_sample_progress progress, void *data, GError **error);
/*
 * Ends a run early. Returns at once, and the report is READY soon after. As at the end of a timed
 * run, a machine that does not answer delays that by a second at most. Errors: INVALID_STATE (not
 * RUNNING).
 */
bool vms_sample_report_stop(struct vms_sample_report *report, GError **error);
/*
 * Waits until the report is READY, or until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: no limit).
 * True if it is READY and `progress` was called for the last time. Do not call it from `progress`:
 * there it returns true at once.
 */
bool vms_sample_report_wait(struct vms_sample_report *report, uint64_t until_ns);

enum vms_sample_state vms_sample_report_state(struct vms_sample_report *report);
enum vms_sample_end vms_sample_report_end(struct vms_sample_report *report);
/* Returns why a run FAILED or the machine is GONE, or NULL. The report owns it. */
const GError *vms_sample_report_error(struct vms_sample_report *report);
uint64_t vms_sample_report_elapsed_ns(struct vms_sample_report *report);
/*
 * Returns the message of the first failure of that kind, and what helps if that is known. It is
 * newly allocated, or NULL.
 */
char *vms_sample_report_reason(struct vms_sample_report *report, enum vms_sample_failure failure);
/*
 * Returns the guest of the last run. Before a run, it is the guest that vms_sample_report_new got,
 * which may be NULL. The report owns it.
 */
struct vms_guest *vms_sample_report_guest(struct vms_sample_report *report);
/* Gets the counts of a vCPU. False if there is no such vCPU, or no run. */
bool vms_sample_report_stats(struct vms_sample_report *report, unsigned vcpu,
			     struct vms_sample_stats *ret);
/*
 * Returns the facts of the last run, newly allocated, without items. During the run, they are the
 * facts so far.
 */
struct vms_run_facts *vms_sample_report_facts(struct vms_sample_report *report);

enum vms_profile_flags {
	VMS_PROFILE_BY_ADDRESS = 1 << 0,  /* a node per address, not per function */
	VMS_PROFILE_MERGE_VCPUS = 1 << 1, /* one tree for all vCPUs, not one per vCPU */
	/* At most one of these. Without one, each process has nodes of its own. */
	VMS_PROFILE_BY_COMM = 1 << 2,		/* all processes of one name are one */
	VMS_PROFILE_BY_CONTAINER = 1 << 3,	/* those of one container or service are one */
	VMS_PROFILE_WITHOUT_PROCESSES = 1 << 4, /* trees have no nodes of processes */
};
/*
 * Names the sampled trees, and returns them as a new profile. `flags` are enum vms_profile_flags.
 * Errors: INVALID_STATE (not READY, or nothing was sampled).
 */
struct vms_profile *vms_sample_report_profile(struct vms_sample_report *report, unsigned flags,
					      GError **error);

VMS_END_DECLS
