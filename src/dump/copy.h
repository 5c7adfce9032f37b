/* SPDX-License-Identifier: MIT */
/*
 * Copies a machine's memory into a sink with several threads. While the disk keeps up, each thread
 * writes what it has read. When the disk falls behind, reading goes on, and what is not written yet
 * waits in memory (backlog.h).
 */
#pragma once

#include "dump/sink.h"

typedef struct vms_dump_copy vms_dump_copy;

/*
 * Starts a copy with `pairs` pairs of threads. One thread of each pair reads; both may write, so
 * the sink must have been opened for 2 * pairs workers. `state` and `sink` must stay valid until
 * the copy is freed. What was read and is not written yet may take `backlog` bytes of memory.
 * Errors: IO (no memory, or no thread).
 */
struct vms_dump_copy *vms_dump_copy_start(const struct vms_dump_state *state,
					  struct vms_dump_sink *sink, unsigned pairs,
					  uint64_t backlog, GError **error);

enum vms_dump_copy_stage {
	VMS_DUMP_COPY_READ,    /* the machine is not needed any more */
	VMS_DUMP_COPY_WRITTEN, /* the sink is not needed any more either */
};
/*
 * Waits for the end of a stage, until `until_ns` (CLOCK_MONOTONIC). True if the stage has ended:
 * all is copied, there was an error, or the copy was cancelled.
 */
bool vms_dump_copy_wait(struct vms_dump_copy *copy, enum vms_dump_copy_stage stage,
			uint64_t until_ns);
/* Returns the first error so far, or NULL. The copy owns it. Does not wait. */
const GError *vms_dump_copy_error(struct vms_dump_copy *copy);
/*
 * Cancels the copy, waits until no thread reads the machine, and drops the reference to it. If a
 * thread still reads it at `until_ns`, vms_dump_copy_free drops the reference.
 */
void vms_dump_copy_leave(struct vms_dump_copy *copy, uint64_t until_ns);
/* Waits for the threads. */
void vms_dump_copy_join(struct vms_dump_copy *copy);
/* Cancels the copy, waits for its threads, and frees it. NULL is allowed. */
void vms_dump_copy_free(struct vms_dump_copy *copy);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump_copy, vms_dump_copy_free)

/* Return how many bytes of memory were read so far, were read as pages of zeros, were written. */
uint64_t vms_dump_copy_read(const struct vms_dump_copy *copy);
uint64_t vms_dump_copy_zeros(const struct vms_dump_copy *copy);
uint64_t vms_dump_copy_written(const struct vms_dump_copy *copy);
/*
 * Returns how many bytes of memory are not known to be zeros. Until `until_ns`, it reads memory
 * that was not copied, as it is now: the machine may run. Must not be called after
 * vms_dump_copy_leave.
 */
uint64_t vms_dump_copy_nonzero(const struct vms_dump_copy *copy, uint64_t until_ns);
/*
 * Returns the memory that could not be read: struct vms_range, not sorted, owned by the copy.
 * *not_listed is the number of bytes that the list leaves out because it is too long. Must be
 * called after vms_dump_copy_join.
 */
GArray *vms_dump_copy_unreadable(struct vms_dump_copy *copy, uint64_t *not_listed);
