/* SPDX-License-Identifier: MIT */
/* Parses a SPEC of `vmscope flow`: WHERE[:MOMENT][=ENTRY,…[;ENTRY,…]]. */
#pragma once

#include "session.h"

/* Returns help on the syntax of a SPEC, newly allocated. */
char *flow_spec_explain(void);
/* What all SPECs share: conditions on hits (NULL: none), and a process. */
struct flow_conditions {
	const char *at_place;
	const char *at_return;	     /* of calls */
	bool adds_up;		     /* hits are aggregated: no default entries are collected */
	bool has_process;	     /* functions of a process's programs are places, too */
	const struct vms_task *task; /* the process; NULL: it is not there */
};

/* Finds the first or the last `sign` outside of parentheses and quotes. NULL if there is none. */
const char *flow_spec_find_outside(const char *text, char sign, bool first);
/*
 * Returns the addresses at which a SPEC places probes now: a new array of uint64_t. `*in_process`:
 * they are, or would be, in the process's programs. Errors: usage; NOT_FOUND (no such symbol,
 * nothing matches).
 */
GArray *flow_spec_find(struct session *session, const char *text,
		       const struct flow_conditions *conditions, bool *in_process, GError **error);
/*
 * Adds the places of a SPEC to a flow, at these addresses. Errors: usage; those of vms_probe_add
 * and vms_flow_add.
 */
bool flow_spec_add(struct session *session, struct vms_flow *flow, const char *text,
		   const struct flow_conditions *conditions, const GArray *vas, GError **error);
/* Makes a probe of entries, "ENTRY,…", for any place. The text may be empty. Errors as above. */
struct vms_probe *flow_spec_probe(struct session *session, const char *entries, GError **error);
/* Splits "ENTRY,…" into strings. Errors: usage (an entry is empty). */
GPtrArray *flow_spec_split(const char *entries, GError **error);
/* Adds an ENTRY to a probe, under its own text as name. Errors: usage; those of vms_probe_add. */
bool flow_spec_add_entry(struct session *session, struct vms_probe *probe, const char *entry,
			 GError **error);
/* True if the user wants the default entries, so the probe collects its function's arguments. */
bool flow_spec_has_arguments(const struct vms_probe *probe);
