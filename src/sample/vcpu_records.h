/* SPDX-License-Identifier: MIT */
/* How the vCPUs of a guest were sampled, as events of a recording. */
#pragma once

#include "capture/sample_records.h"
#include <vmscope/run_facts.h>

void vms_vcpu_records_put(GByteArray *out, uint64_t time_ns, unsigned vcpu,
			  const struct vms_sample_stats *stats);
/*
 * Reads an event. It goes to `vcpus`, which has `n` elements; what is of none of them is left out.
 * False if it is no such event.
 */
bool vms_vcpu_records_get(const struct vms_fxt_record *event, struct vms_sample_stats *vcpus,
			  size_t n);
