/* SPDX-License-Identifier: MIT */
/*
 * The places of a flow, by the SPECs that ask for them. Modules come and go while a flow runs: the
 * places follow.
 */
#pragma once

#include "flow_spec.h"

struct flow_places;

/*
 * Adds the places of `n` SPECs to a flow. `flow`, `conditions` and `specs` must stay. `waits`: a
 * place that is not there yet is waited for. Errors: those of flow_spec_add.
 */
struct flow_places *flow_places_new(struct session *session, struct vms_flow *flow,
				    const struct flow_conditions *conditions, char *const *specs,
				    size_t n, bool waits, GError **error);
void flow_places_free(struct flow_places *places);

/* True if nothing is there yet: the flow cannot be enabled. */
bool flow_places_is_empty(const struct flow_places *places);
/*
 * Looks, from time to time, whether code was loaded or has gone that places are in. True if the
 * flow has to be disabled, for flow_places_change.
 */
bool flow_places_must_change(struct flow_places *places);
/* Brings the places of a disabled flow to what is loaded now, and says what came and went. */
bool flow_places_change(struct flow_places *places, GError **error);
/* Warns of what never came. */
void flow_places_warn(const struct flow_places *places);
