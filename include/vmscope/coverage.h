/* SPDX-License-Identifier: MIT */
/*
 * Coverage: which code of a guest's kernel and its modules ran, for a time, a whole boot, or
 * between two addresses. It needs a machine that is reached through the agent inside QEMU. It is a
 * job: start, progress, stop, wait, finish. Its result is a report, a plain value that can be used
 * when machine and guest are gone.
 *
 * Only code at the kernel's privilege counts, firmware included. A block is a sequence of
 * instructions that QEMU translates together. The result is exact: the first instruction of a
 * reported block began, and if the block is whole, each of its instructions began. A block that is
 * not whole was left in its middle each time. If the reason was an access to a device, the end of
 * the code that ran is known. After a fault it is not known, and only the first instruction counts.
 * The code that runs next is another block.
 */
#pragma once

#include <vmscope/guest.h>

VMS_BEGIN_DECLS

typedef struct vms_coverage vms_coverage;
typedef struct vms_coverage_report vms_coverage_report;

struct vms_coverage_options {
	size_t size; /* sizeof(struct vms_coverage_options) */
	/*
	 * Addresses of instructions, or 0. With `from`, the coverage begins when a vCPU executes
	 * the instruction there for the first time; code that ran before does not count. With `to`,
	 * it ends when a vCPU reaches the instruction there for the first time after `from`, before
	 * it executes it. Code that other vCPUs execute at that moment may count or not.
	 */
	uint64_t from, to;
	uint64_t duration_ns; /* 0: no limit */
	uint32_t max_blocks;  /* further ones are lost; 0: a million, less with many vCPUs */
	bool lines;	      /* report which source lines ran, by symbol files with DWARF */
};

struct vms_coverage_progress {
	uint64_t blocks; /* translated by QEMU; most of them have run */
	uint64_t lost;	 /* number of translated blocks for which there was no room */
	bool waits;	 /* `from` was not reached yet */
};

enum vms_coverage_end {
	VMS_COVERAGE_STOPPED,  /* vms_coverage_stop */
	VMS_COVERAGE_COMPLETE, /* its duration was over, or `to` was reached */
	VMS_COVERAGE_GONE,     /* the machine is gone; the report has what ran until then */
};

/*
 * Begins. When this returns, all code that runs is covered. If nothing was recognised in `guest`
 * yet, it is examined again while it boots. Nobody else may use `guest` until the coverage has
 * ended. `options` are copied; NULL: the defaults. Errors: INVALID_ARGUMENT (the options),
 * UNSUPPORTED (no agent, or an older one), BUSY (another client measures coverage), IO (no memory
 * in QEMU), and those of the machine.
 *
 * All of these may be called from any thread.
 */
struct vms_coverage *vms_coverage_start(struct vms_guest *guest,
					const struct vms_coverage_options *options, GError **error);
void vms_coverage_get_progress(struct vms_coverage *coverage, struct vms_coverage_progress *ret);
/* Ends it (STOPPED). Returns at once. */
void vms_coverage_stop(struct vms_coverage *coverage);
/*
 * Waits until it has ended, or until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: no limit). True if it
 * has.
 */
bool vms_coverage_wait(struct vms_coverage *coverage, uint64_t until_ns);
/* Waits until it has ended. Returns a new reference to the report, and sets why it ended. */
struct vms_coverage_report *vms_coverage_finish(struct vms_coverage *coverage,
						enum vms_coverage_end *end);
/* Stops it if it has not ended, waits for its end, and frees it. NULL is allowed. */
void vms_coverage_free(struct vms_coverage *coverage);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_coverage, vms_coverage_free)

/* ---- the report ------------------------------------------------------------------ */

/* The report owns all that these functions return. */

struct vms_coverage_report *vms_coverage_report_ref(struct vms_coverage_report *report);
void vms_coverage_report_unref(struct vms_coverage_report *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_coverage_report, vms_coverage_report_unref)

/* A function of the guest's kernel, of a module, or of a symbol file. */
struct vms_covered_function {
	const char *name;
	const char *module; /* or symbol file; NULL for the kernel */
	uint64_t va;
	uint64_t size; /* bytes */
	bool ran;
	/*
	 * Blocks of its control flow graph (vmscope/cfg.h), and how many of them ran. Both 0 if it
	 * did not run, or if its code could not be read while it was there.
	 */
	uint32_t n_blocks, n_ran;
};

/* A block as QEMU translated it, which ran. */
struct vms_covered_block {
	uint64_t va;
	uint32_t size; /* bytes; if it is not whole, of the instructions that certainly began */
	bool is_whole; /* at least once it was not left in its middle */
	/* Index of the function that contains its first byte; VMS_COVERED_NO_FUNCTION: none. */
	uint32_t function;
};
#define VMS_COVERED_NO_FUNCTION UINT32_MAX

struct vms_coverage_totals {
	uint64_t functions, functions_ran;
	uint64_t blocks, blocks_ran; /* of the graphs of functions that ran */
	uint64_t nameless;	     /* covered blocks without a function */
	uint64_t cut;		     /* covered blocks that are not whole */
	uint64_t lost;		     /* see struct vms_coverage_progress */
	bool never_began;	     /* `from` was not reached: nothing ran */
};

/*
 * All functions, those that never ran included, `*n` of them: the kernel's first, then by module
 * and address. Modules that were unloaded have only functions that ran.
 */
const struct vms_covered_function *vms_coverage_report_functions(
	const struct vms_coverage_report *report, size_t *n);
/* The blocks that ran, by address, `*n` of them. */
const struct vms_covered_block *vms_coverage_report_blocks(const struct vms_coverage_report *report,
							   size_t *n);
void vms_coverage_report_totals(const struct vms_coverage_report *report,
				struct vms_coverage_totals *ret);
/*
 * Appends a tracefile of lcov: the functions, and with `lines` which lines ran. Counts are 1 or 0.
 * A function without a known source file is in a file named after its module, or "vmlinux", at a
 * line that counts the functions of that module by address.
 */
void vms_coverage_report_lcov(const struct vms_coverage_report *report, GString *out);
/* Appends a file of drcov, version 2: a module for each module, and one for nameless blocks. */
void vms_coverage_report_drcov(const struct vms_coverage_report *report, GString *out);

VMS_END_DECLS
