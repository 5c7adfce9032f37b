/* SPDX-License-Identifier: MIT */
/*
 * A histogram of fixed size over all 64-bit numbers: sixteen buckets to each power of two, so that
 * a quantile is right to about three percent, whatever the numbers are.
 */
#pragma once

#include <stdint.h>

#define VMS_HISTOGRAM_SUB     16
#define VMS_HISTOGRAM_BUCKETS (61 * VMS_HISTOGRAM_SUB)

struct vms_histogram {
	uint64_t count[VMS_HISTOGRAM_BUCKETS];
	uint64_t n;
	uint64_t max;
};

void vms_histogram_add(struct vms_histogram *histogram, uint64_t value);
/* The value that a share of `q` (0 to 1) of the values do not exceed; 0 when there are none. */
uint64_t vms_histogram_quantile(const struct vms_histogram *histogram, double q);
