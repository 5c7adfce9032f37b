/* SPDX-License-Identifier: MIT */
/* Parses filters of flow reports, "KEY=VALUE", and applies them. */
#pragma once

#include <vmscope/flow.h>

/* Help on the form of a filter, newly allocated. */
char *flow_filter_explain(void);
/*
 * Returns the records that match all filters or, with `any`, one of them; with `reverse` the
 * others. `texts` ends with NULL. Times are counted from `begin_ns`. A new reference. Errors:
 * usage.
 */
struct vms_flow_report *flow_filter_apply(struct vms_flow_report *report, char *const *texts,
					  bool any, bool reverse, uint64_t begin_ns,
					  GError **error);
