/* SPDX-License-Identifier: MIT */
/*
 * Copies a machine's memory into a sink, by several threads. While the disk keeps up, they write
 * what they have read; as soon as it does not, reading goes on and what is not written yet waits in
 * memory (backlog.h).
 */
#pragma once

#include "dump/sink.h"

typedef struct vms_dump_copy vms_dump_copy;

/*
 * Begins, with `pairs` of threads, half of which read; all may write: the sink is one for 2 * pairs
 * workers. `state` and `sink` stay valid until it is freed. `backlog`: bytes of memory for what was
 * read and is not written yet. Errors: IO, there is no memory; no thread can be had.
 */
struct vms_dump_copy *vms_dump_copy_start(const struct vms_dump_state *state,
					  struct vms_dump_sink *sink, unsigned pairs,
					  uint64_t backlog, GError **error);

enum vms_dump_copy_stage {
	VMS_DUMP_COPY_READ,    /* the machine is not needed any more */
	VMS_DUMP_COPY_WRITTEN, /* nor is the sink */
};
/*
 * Waits for the end of a stage or until `until_ns` (CLOCK_MONOTONIC). True when nothing is left to
 * be done, because all is copied, because of an error, or because it was cancelled.
 */
bool vms_dump_copy_wait(struct vms_dump_copy *copy, enum vms_dump_copy_stage stage,
			uint64_t until_ns);
/* The first error so far, or NULL; owned by the copy. Waits for nobody. */
const GError *vms_dump_copy_error(struct vms_dump_copy *copy);
/* Ends it as soon as the machine and the disk answer, with what has been copied. */
void vms_dump_copy_cancel(struct vms_dump_copy *copy);
/*
 * Cancels, and lets go of the machine as soon as nobody reads it; if that is not before `until_ns`,
 * only when it is freed.
 */
void vms_dump_copy_leave(struct vms_dump_copy *copy, uint64_t until_ns);
/* Waits for the threads. */
void vms_dump_copy_join(struct vms_dump_copy *copy);
/* Cancels, joins and frees. */
void vms_dump_copy_free(struct vms_dump_copy *copy);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump_copy, vms_dump_copy_free)

/* Bytes of memory so far that were read; those of them in pages of zeros; that were written. */
uint64_t vms_dump_copy_read(const struct vms_dump_copy *copy);
uint64_t vms_dump_copy_zeros(const struct vms_dump_copy *copy);
uint64_t vms_dump_copy_written(const struct vms_dump_copy *copy);
/*
 * Bytes of memory that are not known to be zeros. What was not copied is looked at for that until
 * `until_ns`, as it is now, as the machine may run. Not after a leave.
 */
uint64_t vms_dump_copy_nonzero(const struct vms_dump_copy *copy, uint64_t until_ns);
/*
 * After the join: what could not be read, struct vms_range in no order, owned by the copy;
 * *not_listed: bytes that are missing there because the list is too long.
 */
GArray *vms_dump_copy_unreadable(struct vms_dump_copy *copy, uint64_t *not_listed);
