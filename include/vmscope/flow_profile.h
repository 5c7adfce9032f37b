/* SPDX-License-Identifier: MIT */
/*
 * Profiles of hits: stacks that a flow has counted, as call trees with names. So all formats of
 * <vmscope/export.h> can show them, where a sample is a hit.
 */
#pragma once

#include <vmscope/aggregate.h>
#include <vmscope/profile.h>
#include <vmscope/run_facts.h>

VMS_BEGIN_DECLS

/*
 * Makes a profile of the hits of an aggregate. `index` is the entry of the key's probe that is the
 * stack (VMS_ENTRY_STACK). Rows that only differ in other keys are added up. `guest` names the
 * addresses; it is that of the flow. The caller has to free the profile. Errors: INVALID_ARGUMENT
 * (that entry is not a stack), NOT_FOUND (no hit has a known stack).
 */
struct vms_profile *vms_flow_profile_new(const struct vms_aggregate *aggregate, size_t index,
					 struct vms_guest *guest, GError **error);
/*
 * Makes the facts that an exporter wants besides: machine and guest, and how long hits were
 * counted. The interval between samples is 0. The caller has to free it.
 */
struct vms_run_facts *vms_flow_profile_facts(struct vms_guest *guest, uint64_t elapsed_ns);

VMS_END_DECLS
