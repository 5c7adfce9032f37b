/* SPDX-License-Identifier: MIT */
/* The members of a recording that was loaded. */
#pragma once

#include "base/bytes.h"
#include "capture/sample_records.h"
#include "sample/machine_threads.h"
#include "sample/recording_code.h"
#include <vmscope/recording.h>
#include <vmscope/sample_record.h>

/* A file that processes had mapped. Its symbols are by offset in the file. */
struct vms_recorded_file {
	uint64_t number;
	const char *path, *build_id;	  /* NULL: unknown */
	uint64_t stamp;			  /* of a file without a build id; 0: unknown */
	struct vms_symbol_table *symbols; /* NULL: the recording has none */
	struct vms_recorded_code *code;	  /* NULL: there is none, or `binary` has taken it */
	struct vms_binary *binary;	  /* made of this code; NULL: not made, or no code */
};

enum vms_recorded_event_kind { VMS_RECORDED_PROCESS, VMS_RECORDED_MAPPING };

/* An event of a process: a birth, a program, or a mapping. */
struct vms_recorded_event {
	uint64_t time_ns;
	enum vms_recorded_event_kind kind;
	uint32_t pid, parent;
	char comm[VMS_COMM_SIZE];
	const char *container; /* "": none; NULL: that of before, or of the parent */
	uint64_t start, end, offset, file;
};

#define VMS_RECORDED_CPUS_LIMIT 4096

/* A stack on a CPU, and how many samples have it. */
struct vms_recorded_stack {
	uint32_t space, cpu;
	const void *pcs; /* in the file */
	size_t size;	 /* bytes */
	uint64_t kinds;	 /* number of kernel frames, how the walks ended, and whether it waits */
	uint64_t weight;
	uint32_t node;	  /* of its CPU's tree, while a profile is made */
	bool is_of_guest; /* of the guest's system, not of the host's */
	bool in_guest;	  /* as of a sample; of a joined stack: the thread executed the guest */
	/* The rest is of joined stacks, see recording_join.c. */
	const struct vms_recorded_stack *of;	/* the stack on the host; NULL: it is not joined */
	const struct vms_recorded_stack *guest; /* what the guest executed; NULL: not known */
	unsigned cut;				/* leaf frames of the host that are not shown */
	int role;				/* of the thread, index in `threads`; -1: none */
};

/* True if the vCPU waited in a halt instruction. */
static inline bool vms_recorded_stack_is_idle(const struct vms_recorded_stack *stack)
{
	return stack->kinds >> 48 & 1;
}

/* Returns the state of a thread that waited, as in struct vms_sample_record; 0: it ran. */
static inline char vms_recorded_stack_waits(const struct vms_recorded_stack *stack)
{
	return (char)(stack->kinds >> 49 & 0x7f);
}

/* The time and the thread of a sample. */
struct vms_recorded_moment {
	uint64_t time_ns;
	struct vms_recorded_stack *stack;
	uint32_t pid, tid;
};

/* The name of a guest's kernel beside a host's. */
#define VMS_GUEST_KERNEL "guest kernel"

/* What a session has recorded of a host, or of a guest. */
struct vms_recorded_system {
	bool has_session;
	GHashTable *processes;	 /* pid to process, see recording_processes.c */
	GPtrArray *process_list; /* the same, in the order of the file */
	GHashTable *files;	 /* struct vms_recorded_file by number */
	GArray *process_events;	 /* struct vms_recorded_event */
	GArray *moments;	 /* struct vms_recorded_moment, in the order of the file */
	struct vms_symbol_table *kernel;
	const char *name, *release, *version, *machine, *host;
	uint64_t cpus, begin_ns, begin_real_ns, period_ns;
	bool is_complete;
	struct vms_sampler_stats stats;
};

struct vms_recording {
	uint8_t *file;
	struct vms_bytes bytes; /* of the file; with `budget` */
	/* Pays for all; the others are parts of it. */
	struct vms_budget *budget, *for_texts, *for_processes, *for_symbols;
	char *losses;	   /* what these budgets could not pay for; NULL: nothing */
	GHashTable *texts; /* from a string of the file to its text, which the symbolizer keeps */
	struct vms_symbolizer *symbolizer;
	struct vms_recorded_system host, guest;
	/* The one whose samples are shown: the host, unless there is only a guest. */
	struct vms_recorded_system *shown;
	struct vms_recorded_system *current;	  /* of the record that is being read */
	struct vms_recorded_system *system_of[2]; /* of the provider of a host, and of a guest */
	enum vms_records_system provider;	  /* of the record that is being read */
	struct vms_recorded_stacks *stacks;
	struct vms_recorded_stacks *joined; /* those of a host and a guest; NULL: not both */
	GHashTable *guest_spaces;	    /* address spaces of the guest's processes */
	uint32_t guest_kernel;		    /* the number of its code, if it is beside a host's */
	struct vms_machine_threads threads;
	GArray *damages; /* struct vms_recording_damage */
	struct vms_recording_stats stats;
	const char *machine_name, *description, *unwinder, *failure; /* the first 3 of a guest */
	const char *reasons[VMS_SAMPLE_N_FAILURES];
	GArray *vcpus; /* struct vms_sample_stats of each, if it is a guest */
	uint64_t first_ns, last_ns;
};

/* ---- recording.c ------------------------------------------------------------------- */

/* Makes what the budgets could not pay for so far a damage of the recording. */
void vms_recording_note_losses(struct vms_recording *recording);

/* ---- recording_texts.c ------------------------------------------------------------- */

/*
 * Returns a text of a record, which is safe for a terminal and lives as long as the symbolizer.
 * NULL if there is none, or no budget for it.
 */
const char *vms_recorded_text(struct vms_recording *recording, const struct vms_fxt_record *record,
			      const char *name);

/* ---- recording_records.c ----------------------------------------------------------- */

/* Reads all records but samples. Fills both systems, and notes the damages. */
void vms_recording_read_records(struct vms_recording *recording);
/* Returns the file with this number, and makes it if it is new. NULL: no budget for that. */
struct vms_recorded_file *vms_recorded_file_get(struct vms_recording *recording,
						struct vms_recorded_system *system,
						uint64_t number);
/* Returns the symbols of the kernel of a system. */
struct vms_symbol_table *vms_recorded_kernel(const struct vms_recording *recording,
					     struct vms_recorded_system *system);

/* ---- recording_processes.c --------------------------------------------------------- */

void vms_recorded_processes_init(struct vms_recorded_system *system);
/* Gives the processes of a system their mappings over time, in the symbolizer. */
void vms_recording_map_processes(struct vms_recording *recording,
				 struct vms_recorded_system *system);
/*
 * Makes the symbols of the kernels known: those of a host, or of a guest alone, are the kernel's.
 * Beside a host, those of a guest are loaded code.
 */
void vms_recording_map_kernels(struct vms_recording *recording);
/*
 * Notes that a process has a sample. Returns the address space of its mappings at that time, or
 * VMS_NO_SPACE.
 */
uint32_t vms_recorded_process_note_sample(struct vms_recording *recording,
					  struct vms_recorded_system *system, uint32_t pid,
					  uint64_t time_ns, bool has_user);
/* Counts processes with samples, and those of them whose mappings are missing. */
void vms_recorded_processes_count(const struct vms_recorded_system *system,
				  struct vms_recording_stats *stats);

/* ---- recording_stacks.c ------------------------------------------------------------ */

/* Different stacks, in the order in which they were added. It owns them. */
struct vms_recorded_stacks {
	GHashTable *index; /* struct vms_recorded_stack */
	GPtrArray *all;
};

struct vms_recorded_stacks *vms_recorded_stacks_new(GHashFunc hash, GEqualFunc equal);
void vms_recorded_stacks_free(struct vms_recorded_stacks *stacks);
/*
 * Returns the stack that is equal to `key`, or a copy of that, which is added. NULL: no budget for
 * the copy.
 */
struct vms_recorded_stack *vms_recorded_stacks_get(struct vms_recorded_stacks *stacks,
						   const struct vms_recorded_stack *key,
						   struct vms_budget *budget);
/* Counts the stacks of all samples. */
void vms_recording_count_stacks(struct vms_recording *recording);
/* Decodes a stack as a sample, without time and thread. */
void vms_recorded_stack_get(const struct vms_recorded_stack *stack, struct vms_sample_record *ret);

/* ---- recording_join.c -------------------------------------------------------------- */

/* Makes the stacks of a host's samples contain what the guest executed. */
void vms_recording_join(struct vms_recording *recording);
