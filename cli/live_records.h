/* SPDX-License-Identifier: MIT */
/* A queue of records from the flow's thread to the output, which may block. */
#pragma once

#include <stdbool.h>
#include <vmscope/flow.h>

struct vms_outfile;

struct live_records {
	GAsyncQueue *queue;	  /* struct vms_flow_record * */
	gint n_lost;		  /* records that did not fit into the queue */
	struct vms_outfile *file; /* the output is also written here; NULL by default */
	bool is_silent;		  /* nothing is printed; false by default */
};

void live_records_init(struct live_records *live);
void live_records_clear(struct live_records *live);
/* Queues a record: for vms_flow_options.each, with a struct live_records as `data`. */
void live_records_add(struct vms_flow_record *record, void *data);
/*
 * Waits at most `wait_us` for a record. Calls `give` for queued records, and prints the text that
 * it appends. It returns after a moment even if there are more records.
 */
bool live_records_show(struct live_records *live, uint64_t wait_us,
		       bool (*give)(const struct vms_flow_record *record, void *data, GString *out,
				    GError **error),
		       void *data, GError **error);
/* True if no record is queued. */
bool live_records_is_empty(const struct live_records *live);
/* Counts the records that were lost or are still queued. */
unsigned live_records_left(const struct live_records *live);
