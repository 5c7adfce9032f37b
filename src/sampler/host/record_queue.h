/* SPDX-License-Identifier: MIT */
/*
 * Sorts the records of several rings by time. The kernel only orders them within the ring of a CPU,
 * and a task may move from one CPU to another.
 */
#pragma once

#include "sampler/host/perf_ring.h"

struct vms_record_queue;

struct vms_record_queue *vms_record_queue_new(void);
void vms_record_queue_free(struct vms_record_queue *queue);
/* Adds a copy of a record. */
void vms_record_queue_put(struct vms_record_queue *queue, uint64_t time_ns,
			  const struct vms_perf_record *record);
/*
 * Removes all records up to `until_ns`, oldest first; records of the same time in the order of
 * arrival.
 */
void vms_record_queue_take(struct vms_record_queue *queue, uint64_t until_ns,
			   void (*take)(const struct vms_perf_record *record, void *data),
			   void *data);
