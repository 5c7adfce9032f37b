/* SPDX-License-Identifier: MIT */
/*
 * The facts of a run of the sampler: its machine, its guest, and how it went. Like a profile this
 * is a plain value, which needs neither machine nor guest.
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
	VMS_SAMPLE_COMPLETE,  /* its duration was over */
	VMS_SAMPLE_STOPPED,   /* vms_sample_report_stop */
	VMS_SAMPLE_CANCELLED, /* the progress callback returned false */
	VMS_SAMPLE_GONE,      /* the machine went away; samples until then are kept */
	VMS_SAMPLE_RESET,     /* the guest rebooted; samples until then are kept */
	VMS_SAMPLE_FAILED,    /* an engine error; see vms_sample_report_error */
};

/* Returns a text like "complete" or "the guest was reset". */
const char *vms_sample_end_text(enum vms_sample_end end);
/* True if the run ended by itself before its time (GONE, RESET, FAILED). */
bool vms_sample_ended_early(enum vms_sample_end end);

/* Why a sample of a vCPU failed. */
enum vms_sample_failure {
	VMS_SAMPLE_FAIL_HOLD,	 /* the vCPU could not be held */
	VMS_SAMPLE_FAIL_REGS,	 /* its registers could not be read */
	VMS_SAMPLE_FAIL_TORN,	 /* the watchdog has released the vCPU during the sample */
	VMS_SAMPLE_FAIL_PAUSED,	 /* the owner had paused the machine, or it slept */
	VMS_SAMPLE_FAIL_NOT_NOW, /* a migration, a snapshot or a backup was under way */
	VMS_SAMPLE_N_FAILURES,
};

/* Returns a text like "machine was paused". */
const char *vms_sample_failure_name(enum vms_sample_failure failure);

/* Counts and times of one vCPU's samples. */
struct vms_sample_stats {
	uint64_t samples; /* samples that were taken, without those that failed */
	uint64_t idle;	  /* how many of `samples` found the vCPU halted */
	/*
	 * Ticks at which the sample before was still being taken. A run has a tick at its begin and
	 * after every interval, but none at the very end of its duration. So the sum of samples,
	 * missed and failed is duration / interval, rounded up. For a run that ends sooner, it is 1
	 * + elapsed / interval, rounded down. During the run, a tick counts as missed until its
	 * sample has been taken.
	 */
	uint64_t missed;
	uint64_t failed[VMS_SAMPLE_N_FAILURES];
	uint64_t kernel_walks; /* stacks with kernel frames, without idle samples */
	/* ROOT: the walk reached the kernel's entry or a thread's start. */
	uint64_t kernel_walks_by_end[VMS_WALK_N_ENDS];
	/* How long the vCPU was held per sample. */
	uint64_t hold_ns_median, hold_ns_p99, hold_ns_max;
};

/* An item of <vmscope/facts.h>: its table, and why the table is incomplete or missing. */
struct vms_run_item {
	char *title;
	struct vms_table *table; /* or NULL */
	char *error;		 /* or NULL */
};

/* The struct owns all its members. Strings are NULL if unknown. */
typedef struct vms_run_facts {
	char *title;  /* "Linux 6.1.0 on QEMU 10.0.2, 2 vCPUs, 10.0 s at 99 Hz" */
	bool is_host; /* processes of a host were sampled, not a guest; `vcpus` is NULL then */
	char *machine_name;
	char *machine_description; /* "QEMU 10.0.2, TCG, pc-i440fx-10.0" */
	pid_t pid;		   /* of the process that runs the machine; 0 if unknown */
	/* "Linux"; NULL if no operating system was recognised. With `is_host`: of the guest that
	 * was recorded, too. */
	char *system;
	char *release;
	char *version;
	char *hostname;
	char *unwinder;	      /* "ORC" or "frame pointers" */
	char *why;	      /* why no system was recognised, or which part is not understood */
	uint64_t interval_ns; /* between two samples of a vCPU; 0: hits of probes, not samples */
	/* Instructions between two samples of a vCPU; `interval_ns` is the mean then. 0: time
	 * counts. */
	uint64_t interval_instructions;
	uint64_t begin_ns;    /* when it began, in ns of CLOCK_MONOTONIC; 0 if unknown */
	int64_t begin_utc_ns; /* the same in ns since 1970, UTC; 0 if unknown */
	uint64_t elapsed_ns;
	enum vms_sample_end end;
	char *error;	/* the error that ended the run */
	char *left_out; /* what has no names as it costs too much (budget.h); NULL: nothing */
	char *reasons[VMS_SAMPLE_N_FAILURES]; /* message of the first failure of each kind */
	struct vms_sample_stats *vcpus;	      /* of each vCPU */
	unsigned n_vcpus;
	GArray *items; /* struct vms_run_item: see vms_run_facts_read_items */
} vms_run_facts;

void vms_run_facts_free(struct vms_run_facts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_run_facts, vms_run_facts_free)

/*
 * Reads items of the guest and its machine as they are now, and adds them. It may hold the machine.
 * `names` ends with NULL; if it is NULL itself, those items are read that a report has by default.
 * An item that cannot be read is added with its error.
 */
void vms_run_facts_read_items(struct vms_run_facts *facts, struct vms_guest *guest,
			      const char *const *names);

VMS_END_DECLS
