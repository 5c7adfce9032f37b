/* SPDX-License-Identifier: MIT */
/* Parses filters of flow reports, "KEY=VALUE", and applies them. */
#pragma once

#include <vmscope/flow.h>

/* Returns help on the syntax of filters, newly allocated. */
char *flow_filter_explain(void);
/*
 * Returns the records that match all filters, or with `any` at least one of them. With `reverse`
 * it returns the other records. `texts` ends with NULL. Times are relative to `begin_ns`. The
 * caller owns the reference. Errors: usage.
 */
struct vms_flow_report *flow_filter_apply(struct vms_flow_report *report, char *const *texts,
					  bool any, bool reverse, uint64_t begin_ns,
					  GError **error);
