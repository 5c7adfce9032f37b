/* SPDX-License-Identifier: MIT */
/*
 * Units that were read and are not written yet, in memory: those that read do not wait for the disk
 * as long as there is room.
 */
#pragma once

#include "dump/sink.h"

/* Room for a unit. */
struct vms_dump_slot {
	struct vms_dump_unit unit; /* its pointers lead into this slot */
	uint8_t *data;		   /* VMS_DUMP_UNIT_MAX bytes */
	uint8_t *edge[2];	   /* a page each */
};

typedef struct vms_dump_backlog vms_dump_backlog;

/*
 * `limit`: bytes of all slots at most, but for the few that as many threads need at
 * least. Errors: IO, there is no memory.
 */
struct vms_dump_backlog *vms_dump_backlog_new(uint64_t limit, unsigned workers, GError **error);
/* Nobody uses it any more. */
void vms_dump_backlog_free(struct vms_dump_backlog *backlog);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump_backlog, vms_dump_backlog_free)

/* ---- for any thread --------------------------------------------------- */

/* A slot to read a unit into; waits while there is no room. NULL: it was cancelled. */
struct vms_dump_slot *vms_dump_backlog_get(struct vms_dump_backlog *backlog);
/* Gives a slot back whose unit was written, or that was not needed. */
void vms_dump_backlog_put(struct vms_dump_backlog *backlog, struct vms_dump_slot *slot);

/* Adds a unit, to be written; without a slot all of it is zeros. */
void vms_dump_backlog_add(struct vms_dump_backlog *backlog, uint64_t number,
			  struct vms_dump_slot *slot);
enum vms_dump_backlog_taken {
	VMS_DUMP_BACKLOG_UNIT,
	VMS_DUMP_BACKLOG_NOTHING, /* nothing has come in time */
	VMS_DUMP_BACKLOG_ENDED,	  /* it was the last, or it was cancelled */
};
/* The next unit to be written; waits for it until `until_ns` (CLOCK_MONOTONIC). */
enum vms_dump_backlog_taken vms_dump_backlog_take(struct vms_dump_backlog *backlog,
						  uint64_t until_ns, uint64_t *number,
						  struct vms_dump_slot **slot);

/* No unit is added from now on: room is given back to the system. */
void vms_dump_backlog_end(struct vms_dump_backlog *backlog);
/* Nobody waits from now on, and what is left is not written. */
void vms_dump_backlog_cancel(struct vms_dump_backlog *backlog);
