/* SPDX-License-Identifier: MIT */
#include "base/histogram.h"
#include <math.h>

/*
 * Values below 16 have a bucket each. For larger values, the position of the highest bit and the
 * four bits below it choose the bucket.
 */
static unsigned find_bucket(uint64_t value)
{
	if (value < VMS_HISTOGRAM_SUB)
		return (unsigned)value;
	unsigned shift = 59 - (unsigned)__builtin_clzll(value);
	return (shift + 1) * VMS_HISTOGRAM_SUB + (unsigned)(value >> shift & 15);
}

/* The value in the middle of a bucket. */
static uint64_t middle_of_bucket(unsigned bucket)
{
	if (bucket < VMS_HISTOGRAM_SUB)
		return bucket;
	unsigned shift = bucket / VMS_HISTOGRAM_SUB - 1;
	uint64_t first = (uint64_t)(VMS_HISTOGRAM_SUB + bucket % VMS_HISTOGRAM_SUB) << shift;
	return first + (UINT64_C(1) << shift) / 2;
}

void vms_histogram_add(struct vms_histogram *histogram, uint64_t value)
{
	histogram->count[find_bucket(value)]++;
	histogram->n++;
	if (value > histogram->max)
		histogram->max = value;
}

uint64_t vms_histogram_quantile(const struct vms_histogram *histogram, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)histogram->n), seen = 0;
	for (unsigned i = 0; i < VMS_HISTOGRAM_BUCKETS; i++) {
		seen += histogram->count[i];
		if (seen >= rank && seen > 0) {
			uint64_t middle = middle_of_bucket(i);
			return middle < histogram->max ? middle : histogram->max;
		}
	}
	return histogram->max;
}
