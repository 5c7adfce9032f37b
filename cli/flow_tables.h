/* SPDX-License-Identifier: MIT */
/* Tables of `vmscope flow`, which aggregate hits by key. */
#pragma once

#include "session.h"

/* The options, as GLib parses them. */
struct flow_tables_options {
	gboolean count, is_unsigned;
	char *count_by, *by, *interval, *max_keys;
	char **sum, **min, **max, **average, **hist, **lhist;
};

void flow_tables_clear_options(struct flow_tables_options *options);

/* A value of the key: the function, or what an entry of the key's probe collects. */
struct flow_key {
	char *name;
	bool is_function;
	size_t entry;
};

enum flow_figure_kind { FLOW_COUNT, FLOW_SUM, FLOW_MIN, FLOW_MAX, FLOW_AVERAGE, FLOW_HISTOGRAM };

/* A column or a histogram of a table. */
struct flow_figure {
	enum flow_figure_kind kind;
	char *name;
	size_t number; /* index; of FLOW_COUNT: none */
};

/* The tables that a user has asked for. */
struct flow_tables {
	GArray *keys;			 /* struct flow_key */
	GArray *figures;		 /* struct flow_figure */
	struct vms_probe *key, *numbers; /* or NULL */
	GArray *kinds;			 /* struct vms_aggregate_number */
	bool is_unsigned;		 /* all numbers */
	unsigned max_keys;
	uint64_t interval_ns; /* 0: only at the end */
	uint64_t next_ns;     /* when to show the next table */
};

/* NULL without an error if the options ask for no table. Errors: usage; those of vms_probe_add. */
struct flow_tables *flow_tables_new(struct session *session,
				    const struct flow_tables_options *options, GError **error);
void flow_tables_free(struct flow_tables *tables);
/* Makes a flow aggregate its hits for these tables. The flow must not have places yet. */
bool flow_tables_prepare(const struct flow_tables *tables, struct vms_flow *flow, GError **error);
/* True once per interval. The flow was enabled at `begin_ns`, by the same clock as `now_ns`. */
bool flow_tables_is_due(struct flow_tables *tables, uint64_t begin_ns, uint64_t now_ns);

/* The next functions are in flow_tables_output.c. */

/* Appends the current table. The flow was enabled `elapsed_ns` ago. */
bool flow_tables_append(struct session *session, const struct flow_tables *tables,
			struct vms_flow *flow, uint64_t elapsed_ns, GString *out, GError **error);
/* Appends the counts of all hits. */
bool flow_tables_append_summary(const struct session *session, struct vms_flow *flow, GString *out,
				GError **error);
