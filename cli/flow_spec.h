/* SPDX-License-Identifier: MIT */
/* Parses what `vmscope flow` is told: WHERE[:MOMENT][=ENTRY,…[;ENTRY,…]]. */
#pragma once

#include "session.h"

/* Help on the form of a SPEC, newly allocated. */
char *flow_spec_explain(void);
/* What SPECs have in common: expressions that must hold (NULL: none), and a process. */
struct flow_conditions {
	const char *at_place;
	const char *at_return;	     /* of calls */
	bool adds_up;		     /* hits are added up: nothing is collected of itself */
	const struct vms_task *task; /* functions of its programs are places, too; NULL: none */
};

/* Finds the first or the last `sign` outside of parentheses and quotes. NULL: there is none. */
const char *flow_spec_find_outside(const char *text, char sign, bool first);
/*
 * Adds the places of a SPEC to a flow. Errors: usage; NOT_FOUND (no such
 * symbol, nothing matches); those of vms_probe_add and vms_flow_add.
 */
bool flow_spec_add(struct session *session, struct vms_flow *flow, const char *text,
		   const struct flow_conditions *conditions, GError **error);
/*
 * Returns the addresses at which a SPEC places probes now: a new array of uint64_t. Errors: usage;
 * NOT_FOUND.
 */
GArray *flow_spec_find(struct session *session, const char *text,
		       const struct flow_conditions *conditions, GError **error);
/* Makes a probe of entries, "ENTRY,…", for any place; "": without entries. Errors as above. */
struct vms_probe *flow_spec_probe(struct session *session, const char *entries, GError **error);
/* Splits "ENTRY,…" into strings. Errors: usage (an entry is empty). */
GPtrArray *flow_spec_split(const char *entries, GError **error);
/* Adds an ENTRY to a probe, under its own text as name. Errors: usage; those of vms_probe_add. */
bool flow_spec_add_entry(struct session *session, struct vms_probe *probe, const char *entry,
			 GError **error);
/* True if nothing was asked for, and the probe collects its function's arguments. */
bool flow_spec_has_arguments(const struct vms_probe *probe);
