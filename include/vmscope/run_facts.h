/* SPDX-License-Identifier: MIT */
/*
 * The facts of a run of the sampler: of which machine and guest it was, and how it went. A plain
 * value: it needs neither machine nor guest any more, as a profile does not.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <vmscope/table.h>
#include <vmscope/unwind.h>

VMS_BEGIN_DECLS

/* How a run ended. */
enum vms_sample_end {
	VMS_SAMPLE_NOT_RUN,
	VMS_SAMPLE_COMPLETE,  /* its time had passed */
	VMS_SAMPLE_STOPPED,   /* vms_sample_report_stop */
	VMS_SAMPLE_CANCELLED, /* the progress callback said so */
	VMS_SAMPLE_GONE,      /* the machine went away; samples until then are kept */
	VMS_SAMPLE_RESET,     /* the guest rebooted; samples until then are kept */
	VMS_SAMPLE_FAILED,    /* an engine error; see vms_sample_report_error */
};

/* "complete", "the guest was reset" and the like. */
const char *vms_sample_end_text(enum vms_sample_end end);
/* Did the run end by itself, before its time (GONE, RESET, FAILED)? */
bool vms_sample_ended_early(enum vms_sample_end end);

/* Why a sample of a vCPU gave no stack. */
enum vms_sample_failure {
	VMS_SAMPLE_FAIL_HOLD,	 /* the vCPU could not be held */
	VMS_SAMPLE_FAIL_REGS,	 /* its registers could not be read */
	VMS_SAMPLE_FAIL_TORN,	 /* the watchdog had released it meanwhile */
	VMS_SAMPLE_FAIL_PAUSED,	 /* the machine was paused by somebody else, or slept */
	VMS_SAMPLE_FAIL_NOT_NOW, /* a migration, a snapshot or a backup was under way */
	VMS_SAMPLE_N_FAILURES,
};

/* "machine was paused" and the like. */
const char *vms_sample_failure_name(enum vms_sample_failure failure);

/* What was sampled of one vCPU. */
struct vms_sample_stats {
	uint64_t samples; /* taken; failed ones are not among them */
	uint64_t idle;	  /* how many of them found the vCPU halted */
	/*
	 * Ticks that found the last request pending. A run has a tick at its begin and after every
	 * interval, but none at the very end of its duration: samples + missed + failed are
	 * duration / interval, rounded up; of a run that ends sooner 1 + elapsed / interval,
	 * rounded down. While it runs, ticks whose sample is being taken are among these.
	 */
	uint64_t missed;
	uint64_t failed[VMS_SAMPLE_N_FAILURES];
	uint64_t kernel_walks; /* stacks with kernel frames, idle ones aside */
	uint64_t kernel_walks_by_end[VMS_WALK_N_ENDS]; /* ROOT: reached an entry or a thread's start
							*/
	uint64_t hold_ns_median, hold_ns_p99,
		hold_ns_max; /* how long the vCPU was held per sample */
};

/* An item of <vmscope/facts.h> as it was read: a table, and why it is not complete or not there. */
struct vms_run_item {
	char *title;
	struct vms_table *table; /* or NULL */
	char *error;		 /* or NULL */
};

/* Whoever has the facts owns all of them. Strings are NULL where nothing is known. */
typedef struct vms_run_facts {
	char *title; /* "Linux 6.1.0 on QEMU 10.0.2, 2 vCPUs, 10.0 s at 99 Hz" */
	char *machine_name;
	char *machine_description; /* "QEMU 10.0.2, TCG, pc-i440fx-10.0" */
	pid_t pid;		   /* of the process that runs the machine; 0: unknown */
	char *system;		   /* "Linux"; NULL: no operating system was recognised */
	char *release;
	char *version;
	char *hostname;
	char *unwinder;	      /* "ORC" or "frame pointers" */
	char *why;	      /* why there is no system, or what of it could not be understood */
	uint64_t interval_ns; /* between two samples of a vCPU */
	uint64_t elapsed_ns;
	enum vms_sample_end end;
	char *error;			      /* what ended the run */
	char *reasons[VMS_SAMPLE_N_FAILURES]; /* what the first failure of each kind said */
	struct vms_sample_stats *vcpus;	      /* of each vCPU */
	unsigned n_vcpus;
	GArray *items; /* struct vms_run_item: see vms_run_facts_read_items */
} vms_run_facts;

void vms_run_facts_free(struct vms_run_facts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_run_facts, vms_run_facts_free)

/*
 * Reads items of the guest and its machine as they are now, which may hold it, and adds them: the
 * items that `names` names (NULL-terminated), or those that a report has unless told if it is NULL.
 * One that cannot be read is added with its error: nothing is left out without a word.
 */
void vms_run_facts_read_items(struct vms_run_facts *facts, struct vms_guest *guest,
			      const char *const *names);

VMS_END_DECLS
