/* SPDX-License-Identifier: MIT */
/*
 * Recordings: what a sampler session gave, read from a file, whenever and wherever. A recording
 * that is complete has the names of all functions in it, and needs neither the processes nor their
 * files.
 */
#pragma once

#include <vmscope/arch.h>
#include <vmscope/budget.h>
#include <vmscope/profile.h>
#include <vmscope/run_facts.h>
#include <vmscope/sampler.h>
#include <vmscope/symbolizer.h>

VMS_BEGIN_DECLS

typedef struct vms_recording vms_recording;

/* What is wrong with a recording's file. */
struct vms_recording_damage {
	uint64_t offset, size; /* bytes that could not be read */
	const char *reason;
	bool is_truncated; /* the file ends there in the middle of a record */
	/*
	 * Nothing is wrong there, but to read more costs more than the budget has: `reason` says
	 * what. There is at most one, the first in the list.
	 */
	bool is_costly;
};

struct vms_recording_stats {
	uint64_t samples;
	uint64_t waiting;	      /* of them, of threads that were off the CPU */
	uint64_t processes, unmapped; /* processes with samples; those whose mappings are missing */
	bool is_complete;	      /* the session had ended when the file was written */
	struct vms_sampler_stats session; /* only if it is complete */
	uint64_t begin_real_ns;		  /* CLOCK_REALTIME; 0: unknown */
	uint64_t period_ns;
	uint64_t period_instructions; /* 0: the period is one of time; else period_ns is 0 */
	/*
	 * Of a host and a guest: samples of the guest; those of the host that were taken while a
	 * vCPU executed the guest; how many of these have the guest's stack.
	 */
	uint64_t guest_samples, in_guest, joined;
	struct vms_sampler_stats guest_session; /* beside `session`, which is of the host */
};

/*
 * Reads a recording. A damaged file is read as far as it can be; vms_recording_damages tells what
 * is missing. The file is interpreted on a budget of vms_recording_budget_new. Errors: NOT_FOUND,
 * PERMISSION, IO (as if it is not a regular file), MALFORMED (it is not a recording).
 */
struct vms_recording *vms_recording_load(const char *path, GError **error);
/*
 * The same of an open file, which stays the caller's; `name` is for messages. `budget` also pays
 * for the profiles that are made of the recording; NULL: one by the file's size. Errors: as above;
 * BUDGET, CANCELLED.
 */
struct vms_recording *vms_recording_load_fd(int fd, const char *name, struct vms_budget *budget,
					    GError **error);
/*
 * Makes the budget of a file that a user has named: 4 s of processor time and 10 s more for each
 * GiB, 256 MiB of memory and six times the file's size.
 */
struct vms_budget *vms_recording_budget_new(uint64_t file_bytes);
/* Returns the budget of a recording, for options of exports. The recording owns it. */
struct vms_budget *vms_recording_budget(const struct vms_recording *recording);
void vms_recording_free(struct vms_recording *recording);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_recording, vms_recording_free)

/* Returns what is wrong with the file, `*n` parts of it. The recording owns them. */
const struct vms_recording_damage *vms_recording_damages(const struct vms_recording *recording,
							 size_t *n);
void vms_recording_get_stats(const struct vms_recording *recording,
			     struct vms_recording_stats *ret);
/*
 * Appends the names of all functions in the recording to `out`, and the code of those that were
 * executing, as records for the end of its file. They are read from the mapped files, if these
 * still have the same build id, and from /proc/kallsyms. `files` completes what the mapped files
 * have, and may be NULL; its servers are waited for. Call it on the recorded host, soon after the
 * recording. The session of a guest has already recorded them: then it appends nothing. `budget`
 * pays for what is read of files; NULL: one of its own, of 4 s of processor time.
 */
void vms_recording_write_names(struct vms_recording *recording, struct vms_debug_files *files,
			       struct vms_budget *budget, GByteArray *out);
/*
 * Makes a profile: one tree for all CPUs. `flags` are enum vms_profile_flags. What the budget
 * cannot pay for is a damage of the recording. Errors: NOT_FOUND (it has no samples).
 */
struct vms_profile *vms_recording_profile(struct vms_recording *recording, unsigned flags,
					  bool leaf_first, GError **error);
/* Returns what names the recording's addresses. The recording owns it. */
struct vms_symbolizer *vms_recording_symbolizer(const struct vms_recording *recording);
/*
 * Returns the architecture of the code in an address space of the recording's symbolizer, or NULL
 * if it is not known. A guest may have another one than its host.
 */
const struct vms_arch *vms_recording_arch(const struct vms_recording *recording, uint32_t space);
/* Returns the facts of the session, newly allocated. */
struct vms_run_facts *vms_recording_facts(const struct vms_recording *recording);

VMS_END_DECLS
