/* SPDX-License-Identifier: MIT */
/*
 * The places of a flow, by the user's SPECs. They follow modules that are loaded and unloaded while
 * the flow runs, and a process that begins and ends.
 */
#pragma once

#include "flow_process.h"
#include "flow_spec.h"

struct flow_places;

/* What the user has asked for. All of it must outlive the places. */
struct flow_places_request {
	char *const *specs;
	size_t n_specs;
	char **conditions, **return_conditions; /* of --if and --if-return; NULL: none */
	bool adds_up;				/* see struct flow_conditions */
	const char *task;			/* of --task; NULL: none */
	bool waits;				/* code and process may be there later: --pending */
};

/*
 * Adds the places to a flow, which must outlive the result. Errors: usage; those of flow_spec_find
 * and flow_spec_add.
 */
struct flow_places *flow_places_new(struct session *session, struct vms_flow *flow,
				    const struct flow_places_request *request, GError **error);
void flow_places_free(struct flow_places *places);

/* True if no place exists yet, so the flow cannot be enabled. */
bool flow_places_is_empty(const struct flow_places *places);
/*
 * Checks at intervals whether code of the SPECs was loaded or unloaded, or the process has changed.
 * True if so: the caller then disables the flow, shows the records that it has, because their
 * places are named by the process, and calls flow_places_change.
 */
bool flow_places_must_change(struct flow_places *places);
/*
 * Adds and removes places of a disabled flow as the last check has found them, and logs the
 * changes.
 */
bool flow_places_change(struct flow_places *places, GError **error);
/* Warns about SPECs whose code was never loaded. */
void flow_places_warn(const struct flow_places *places);
