/* SPDX-License-Identifier: MIT */
/*
 * A histogram of fixed size over all 64-bit numbers. Each power of two has sixteen buckets. So the
 * error of a quantile is about three percent, whatever the numbers are.
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
/*
 * The `q` quantile (0 to 1): the value that this share of the values does not exceed. 0 if the
 * histogram is empty.
 */
uint64_t vms_histogram_quantile(const struct vms_histogram *histogram, double q);
