/* SPDX-License-Identifier: MIT */
/* Copies a machine's memory into a sink, by several threads. */
#pragma once

#include "dump/sink.h"

typedef struct vms_dump_copy vms_dump_copy;

/* Begins; `state` and `sink` stay valid until it is freed. */
struct vms_dump_copy *vms_dump_copy_start(const struct vms_dump_state *state,
					  struct vms_dump_sink *sink, unsigned workers);
/*
 * Waits for the end or until `until_ns` (CLOCK_MONOTONIC). True when nothing is left to be done,
 * because all is copied or because of an error.
 */
bool vms_dump_copy_wait(struct vms_dump_copy *copy, uint64_t until_ns);
/* Ends it soon, with what has been copied. */
void vms_dump_copy_cancel(struct vms_dump_copy *copy);
/* Waits for the threads. False with the first error. */
bool vms_dump_copy_join(struct vms_dump_copy *copy, GError **error);
/* Cancels, joins and frees. */
void vms_dump_copy_free(struct vms_dump_copy *copy);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump_copy, vms_dump_copy_free)

/* Bytes of memory so far that are dealt with; those of them in pages of zeros; for any thread. */
uint64_t vms_dump_copy_done(const struct vms_dump_copy *copy);
uint64_t vms_dump_copy_zeros(const struct vms_dump_copy *copy);
/*
 * After the join: what could not be read, struct vms_range in no order, owned by the copy;
 * *not_listed: bytes that are missing there because the list is too long.
 */
GArray *vms_dump_copy_unreadable(struct vms_dump_copy *copy, uint64_t *not_listed);
