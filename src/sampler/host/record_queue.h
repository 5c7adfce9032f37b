/* SPDX-License-Identifier: MIT */
/*
 * Puts records of several rings into the order of their times. The kernel orders them within each
 * CPU's ring alone, and a task may go from one CPU to another.
 */
#pragma once

#include "sampler/host/perf_ring.h"

struct vms_record_queue;

struct vms_record_queue *vms_record_queue_new(void);
void vms_record_queue_free(struct vms_record_queue *queue);
/* Adds a copy of a record. */
void vms_record_queue_put(struct vms_record_queue *queue, uint64_t time_ns,
			  const struct vms_perf_record *record);
/* Takes all records up to `until_ns`, the oldest first; of one time in the order of their coming.
 */
void vms_record_queue_take(struct vms_record_queue *queue, uint64_t until_ns,
			   void (*take)(const struct vms_perf_record *record, void *data),
			   void *data);
