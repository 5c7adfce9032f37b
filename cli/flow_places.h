/* SPDX-License-Identifier: MIT */
/*
 * The places of a flow, by the user's SPECs. They follow modules that are loaded and unloaded while
 * the flow runs.
 */
#pragma once

#include "flow_spec.h"

struct flow_places;

/*
 * Adds the places of `n` SPECs to a flow. `flow`, `conditions` and `specs` must outlive the result.
 * With `waits`, a SPEC may name code that is not loaded yet. Errors: those of flow_spec_add.
 */
struct flow_places *flow_places_new(struct session *session, struct vms_flow *flow,
				    const struct flow_conditions *conditions, char *const *specs,
				    size_t n, bool waits, GError **error);
void flow_places_free(struct flow_places *places);

/* True if no place exists yet, so the flow cannot be enabled. */
bool flow_places_is_empty(const struct flow_places *places);
/*
 * Checks at intervals whether code of the SPECs was loaded or unloaded. True if so: the caller then
 * disables the flow and calls flow_places_change.
 */
bool flow_places_must_change(struct flow_places *places);
/*
 * Adds and removes places of a disabled flow as the last check has found them, and logs the
 * changes.
 */
bool flow_places_change(struct flow_places *places, GError **error);
/* Warns about SPECs whose code was never loaded. */
void flow_places_warn(const struct flow_places *places);
