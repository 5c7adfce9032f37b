/* SPDX-License-Identifier: MIT */
/* Records of a flow on their way from its thread to the output, which may block. */
#pragma once

#include <stdbool.h>
#include <vmscope/flow.h>

struct vms_outfile;

struct live_records {
	GAsyncQueue *queue;	  /* struct vms_flow_record * */
	gint n_lost;		  /* that found it full */
	struct vms_outfile *file; /* gets what is shown, too; NULL unless set */
	bool is_silent;		  /* nothing is printed; false unless set */
};

void live_records_init(struct live_records *live);
void live_records_clear(struct live_records *live);
/* For vms_flow_options.each; `data` is a struct live_records. */
void live_records_add(struct vms_flow_record *record, void *data);
/*
 * Waits until there is a record, or the time is over. Calls `give` for those that have come, for a
 * moment: there may be more. It appends to what is printed afterwards.
 */
bool live_records_show(struct live_records *live, uint64_t wait_us,
		       bool (*give)(const struct vms_flow_record *record, void *data, GString *out,
				    GError **error),
		       void *data, GError **error);
/* True if none waits to be shown. */
bool live_records_is_empty(const struct live_records *live);
/* How many have not been shown. */
unsigned live_records_left(const struct live_records *live);
