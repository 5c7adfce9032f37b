/* SPDX-License-Identifier: MIT */
/*
 * A queue in memory of units that were read and are not written yet. As long as it has room,
 * threads that read do not wait for the disk.
 */
#pragma once

#include "dump/sink.h"

/* Memory for one unit. */
struct vms_dump_slot {
	struct vms_dump_unit unit; /* its pointers point into this slot */
	uint8_t *data;		   /* VMS_DUMP_UNIT_MAX bytes */
	uint8_t *edge[2];	   /* a page each */
};

typedef struct vms_dump_backlog vms_dump_backlog;

/*
 * Makes a backlog whose slots have at most `limit` bytes in all. It has at least one slot for each
 * of the `workers`, whatever the limit is. Errors: IO (there is no memory).
 */
struct vms_dump_backlog *vms_dump_backlog_new(uint64_t limit, unsigned workers, GError **error);
/* Frees a backlog that no thread uses any more. NULL is allowed. */
void vms_dump_backlog_free(struct vms_dump_backlog *backlog);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump_backlog, vms_dump_backlog_free)

/* ---- for any thread --------------------------------------------------- */

/* Takes a slot to read a unit into. Waits while none is free. NULL if the backlog is cancelled. */
struct vms_dump_slot *vms_dump_backlog_get(struct vms_dump_backlog *backlog);
/* Gives back a slot whose unit was written, or that was not needed. */
void vms_dump_backlog_put(struct vms_dump_backlog *backlog, struct vms_dump_slot *slot);

/* Adds a unit to the queue. If `slot` is NULL, the unit is all zeros. */
void vms_dump_backlog_add(struct vms_dump_backlog *backlog, uint64_t number,
			  struct vms_dump_slot *slot);
enum vms_dump_backlog_taken {
	VMS_DUMP_BACKLOG_UNIT,
	VMS_DUMP_BACKLOG_NOTHING, /* no unit has come in time */
	VMS_DUMP_BACKLOG_ENDED,	  /* there are no more units, or the backlog is cancelled */
};
/*
 * Takes the next unit to be written. Waits for one until `until_ns` (CLOCK_MONOTONIC). *number and
 * *slot are as in vms_dump_backlog_add.
 */
enum vms_dump_backlog_taken vms_dump_backlog_take(struct vms_dump_backlog *backlog,
						  uint64_t until_ns, uint64_t *number,
						  struct vms_dump_slot **slot);

/* Says that no more units are added. From now on memory of free slots goes back to the system. */
void vms_dump_backlog_end(struct vms_dump_backlog *backlog);
/* Ends all waiting. Units that are still in the queue are not handed out. */
void vms_dump_backlog_cancel(struct vms_dump_backlog *backlog);
