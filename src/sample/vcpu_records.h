/* SPDX-License-Identifier: MIT */
/* Writes and reads the counts of a guest's vCPUs as events of a recording. */
#pragma once

#include "capture/sample_records.h"
#include <vmscope/run_facts.h>

void vms_vcpu_records_put(GByteArray *out, uint64_t time_ns, unsigned vcpu,
			  const struct vms_sample_stats *stats);
/*
 * Reads an event into the element of its vCPU in `vcpus`, which has `n` elements. Ignores events of
 * other vCPUs. False if it is not such an event.
 */
bool vms_vcpu_records_get(const struct vms_fxt_record *event, struct vms_sample_stats *vcpus,
			  size_t n);
