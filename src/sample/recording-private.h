/* SPDX-License-Identifier: MIT */
/* The members of a recording that was loaded. */
#pragma once

#include "base/bytes.h"
#include "sample/recording_code.h"
#include <vmscope/recording.h>
#include <vmscope/sample_record.h>

/* A file that processes had mapped. Its symbols are by offset in the file. */
struct vms_recorded_file {
	uint64_t number;
	char *path, *build_id;		  /* NULL: unknown */
	uint64_t stamp;			  /* of a file without a build id; 0: unknown */
	struct vms_symbol_table *symbols; /* NULL: the recording has none */
	struct vms_recorded_code *code;	  /* NULL: there is none, or `binary` has taken it */
	struct vms_binary *binary;	  /* made of this code; NULL: not made, or no code */
};

/* A stack on a CPU, and how many samples have it. */
struct vms_recorded_stack {
	uint32_t space, cpu;
	const void *pcs; /* in the file */
	size_t size;	 /* bytes */
	uint64_t kinds;	 /* number of kernel frames, how the walks ended, and whether it waits */
	uint64_t weight;
	uint32_t node; /* of its CPU's tree, while a profile is made */
};

/* The time and the thread of a sample. */
struct vms_recorded_moment {
	uint64_t time_ns;
	struct vms_recorded_stack *stack;
	uint32_t pid, tid;
};

/* Decodes a stack as a sample, without time and thread. */
void vms_recorded_stack_get(const struct vms_recorded_stack *stack, struct vms_sample_record *ret);

struct vms_recording {
	char *text; /* the file */
	struct vms_bytes bytes;
	struct vms_symbolizer *symbolizer;
	GHashTable *processes; /* pid to struct process */
	GHashTable *files;     /* struct vms_recorded_file by number */
	GHashTable *stacks;    /* struct vms_recorded_stack */
	GArray *moments;       /* struct vms_recorded_moment, in the order of the file */
	struct vms_symbol_table *kernel;
	GArray *damages;	/* struct vms_recording_damage */
	GArray *process_events; /* struct process_event */
	struct vms_recording_stats stats;
	bool has_session;
	bool is_guest; /* true for threads of a guest, false for a host's */
	char *system, *release, *version, *machine, *host, *guest, *description, *unwinder,
		*failure;
	char *reasons[VMS_SAMPLE_N_FAILURES];
	GArray *vcpus; /* struct vms_sample_stats of each, if it is a guest */
	uint64_t cpus, begin_ns, first_ns, last_ns;
	guint n_mappings; /* of all processes and generations */
};
