/* SPDX-License-Identifier: MIT */
/*
 * Sorts hits from the rings of several vCPUs by their numbers. A hit is held back until all earlier
 * ones have arrived or are known to be lost.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <glib.h>
#include <stdbool.h>

struct vms_hit_order {
	GArray *held;	   /* struct held */
	GByteArray *bytes; /* their values */
	uint64_t next;	   /* number of the next hit to deliver */
	uint64_t lost;	   /* numbers that are missing */
};

void vms_hit_order_init(struct vms_hit_order *order);
void vms_hit_order_clear(struct vms_hit_order *order);
/* Adds a hit. Copies `values`, hit->size bytes. */
void vms_hit_order_add(struct vms_hit_order *order, const struct vms_agent_hit *hit,
		       const uint8_t *values);
/*
 * Delivers all hits that are due, and returns how many. The caller has added all hits up to the
 * number `settled` that were not lost. A number that was added twice is delivered once.
 */
size_t vms_hit_order_run(struct vms_hit_order *order, uint64_t settled,
			 void (*each)(const struct vms_agent_hit *hit, const uint8_t *values,
				      void *data),
			 void *data);
/* Returns the lowest number that is held back, or 0. */
uint64_t vms_hit_order_first(const struct vms_hit_order *order);
