/* SPDX-License-Identifier: MIT */
/* The loop of commands that show records of a flow while it runs. */
#pragma once

#include "live_records.h"

struct live_run {
	struct live_records *live;
	/* Gives a record: see live_records_show. */
	bool (*give)(const struct vms_flow_record *record, void *data, GString *out,
		     GError **error);
	uint64_t duration_ns; /* 0: no limit */
	bool (*has_ended)(void *data);
	bool (*after_round)(void *data,
			    GError **error); /* after each round but the last; or NULL */
	void *data;
};

/*
 * Shows records until the run has ended, the time is over, or an interrupt comes, which the caller
 * catches. Then records may be left.
 */
bool live_run_until_end(const struct live_run *run, GError **error);
/*
 * Shows the records that are left, until an interrupt comes, or if one came that the caller has not
 * forgotten. It continues after an error, and returns the first one.
 */
bool live_run_show_rest(const struct live_run *run, GError **error);
